// Which sanitizer this file is compiled under. GCC defines a macro a sanitizer, Clang answers
// __has_feature. Bounds on memory and time do not hold under one: shadow memory counts as the
// program's.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define BASE_SANITIZES_ADDRESS 1
#endif
#if defined(__SANITIZE_THREAD__)
#define BASE_SANITIZES_THREADS 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer) && !defined(BASE_SANITIZES_ADDRESS)
#define BASE_SANITIZES_ADDRESS 1
#endif
#if __has_feature(thread_sanitizer) && !defined(BASE_SANITIZES_THREADS)
#define BASE_SANITIZES_THREADS 1
#endif
#endif

namespace base {
#if defined(BASE_SANITIZES_ADDRESS) || defined(BASE_SANITIZES_THREADS)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif
}  // namespace base
