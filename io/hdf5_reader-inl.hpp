// The element types that Hdf5Reader::read is built for: included inside namespace io, behind each
// definition of it.
template std::vector<float> Hdf5Reader::read(const std::string&) const;
template std::vector<double> Hdf5Reader::read(const std::string&) const;
template std::vector<std::int8_t> Hdf5Reader::read(const std::string&) const;
template std::vector<std::int16_t> Hdf5Reader::read(const std::string&) const;
template std::vector<std::int32_t> Hdf5Reader::read(const std::string&) const;
template std::vector<std::int64_t> Hdf5Reader::read(const std::string&) const;
template std::vector<std::uint8_t> Hdf5Reader::read(const std::string&) const;
template std::vector<std::uint16_t> Hdf5Reader::read(const std::string&) const;
template std::vector<std::uint32_t> Hdf5Reader::read(const std::string&) const;
template std::vector<std::uint64_t> Hdf5Reader::read(const std::string&) const;
