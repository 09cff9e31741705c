// Which files a command works on: what the user names (files, folders, glob patterns), in a fixed
// order.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace apps {

struct InputFile {
  std::filesystem::path path;
  std::filesystem::path relative;  // below the folder that was searched; else the file's name
};

struct InputFailure {
  std::string path, message;
};

struct Inputs {
  std::vector<InputFile> files;        // each file once, folders' files sorted by path
  std::vector<InputFailure> failures;  // names that match nothing
  bool is_one_file = false;            // a single file was named, by itself
};

// A name that exists is taken as it stands, even with * ? [ in it. Folders are searched for files
// with the extension of a known format, except labels and what data sets keep beside scans
// (calib.txt, poses.txt, ...); links to folders are followed unless they lead back to a folder
// above. What an earlier batch left in the folder `results`, by its log, is no input of a search: a
// call whose results go into the folder that it searches can be repeated.
Inputs find_inputs(const std::vector<std::string>& names,
                   const std::filesystem::path& results = {});

// DIR/<relative>.<extension> for each file. UsageError when two files would share a result, or a
// result is an input or one of `kept`.
std::vector<std::filesystem::path> result_paths(
    const std::vector<InputFile>& files, const std::filesystem::path& folder,
    const std::string& extension, const std::vector<std::filesystem::path>& kept = {});

}  // namespace apps
