// The element types that Hdf5Writer::write is built for: included inside namespace io, behind each
// definition of it.
template void Hdf5Writer::write(const std::string&, std::span<const float>,
                                const std::vector<std::int64_t>&);
template void Hdf5Writer::write(const std::string&, std::span<const double>,
                                const std::vector<std::int64_t>&);
template void Hdf5Writer::write(const std::string&, std::span<const std::int8_t>,
                                const std::vector<std::int64_t>&);
template void Hdf5Writer::write(const std::string&, std::span<const std::int16_t>,
                                const std::vector<std::int64_t>&);
template void Hdf5Writer::write(const std::string&, std::span<const std::int32_t>,
                                const std::vector<std::int64_t>&);
template void Hdf5Writer::write(const std::string&, std::span<const std::int64_t>,
                                const std::vector<std::int64_t>&);
template void Hdf5Writer::write(const std::string&, std::span<const std::uint8_t>,
                                const std::vector<std::int64_t>&);
template void Hdf5Writer::write(const std::string&, std::span<const std::uint16_t>,
                                const std::vector<std::int64_t>&);
template void Hdf5Writer::write(const std::string&, std::span<const std::uint32_t>,
                                const std::vector<std::int64_t>&);
template void Hdf5Writer::write(const std::string&, std::span<const std::uint64_t>,
                                const std::vector<std::int64_t>&);
template void Hdf5Writer::write(const std::string&, std::span<const base::half_t>,
                                const std::vector<std::int64_t>&);
