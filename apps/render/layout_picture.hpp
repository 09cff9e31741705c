// Pictures of layouts as pixels: what layout::svg draws, of the same size.
#pragma once
#include "apps/render/image.hpp"
#include "gemm_core/layout/draw.hpp"

namespace render {

Image draw(const layout::Picture& picture);

}  // namespace render
