/* shape_vm.cpp: runs programs over the sizes and numbers of a call. Whatever can't be computed exactly doesn't hold. */
#include "shape_vm.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace framejit {

const std::vector<const char *> shape_operation_names = {
#define FRAMEJIT_NAME(name) #name,
    FRAMEJIT_SHAPE_OPERATIONS(FRAMEJIT_NAME)};
#undef FRAMEJIT_NAME

namespace {

constexpr int64_t largest_in_float = int64_t{1} << 53; /* up to here every int is a float of its own */

double as_float(int64_t bits) { return std::bit_cast<double>(bits); }
int64_t bits_of(double value) { return std::bit_cast<int64_t>(value); }
bool is_exact(int64_t value) { return value >= -largest_in_float && value <= largest_in_float; }

/* Division as Python does it: towards minus infinity, and the remainder has the sign of the divisor. */
bool divide(int64_t a, int64_t b, int64_t *quotient) {
    if (b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min())) return false;
    *quotient = a / b;
    if (a % b != 0 && (a < 0) != (b < 0)) --*quotient;
    return true;
}

bool remainder(int64_t a, int64_t b, int64_t *rest) {
    if (b == 0) return false;
    *rest = b == -1 ? 0 : a % b;
    if (*rest != 0 && (*rest < 0) != (b < 0)) *rest += b;
    return true;
}

bool power(int64_t base, int64_t exponent, int64_t *result) {
    if (exponent < 0) return false;
    *result = 1;
    if (base == 0 || base == 1 || base == -1) {
        if (exponent != 0) *result = base == -1 && exponent % 2 == 0 ? 1 : base;
        return true;
    }
    for (; exponent > 0; exponent--) { /* 63 rounds at most */
        if (__builtin_mul_overflow(*result, base, result)) return false;
    }
    return true;
}

bool shift_left(int64_t a, int64_t by, int64_t *result) {
    if (by < 0 || (by > 63 && a != 0)) return false;
    *result = a == 0 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << by);
    return a == 0 || *result >> by == a;
}

bool float_power(double base, double exponent, double *result) {
    if (base == 0 && exponent < 0 && std::isfinite(exponent)) return false;
    if (base < 0 && std::isfinite(base) && std::isfinite(exponent) && exponent != std::floor(exponent)) return false;
    *result = std::pow(base, exponent);
    return !std::isinf(*result) || std::isinf(base) || std::isinf(exponent);
}

/* Quotient and remainder of floats, as Python has them (Objects/floatobject.c: _float_div_mod). */
bool float_divmod(double a, double b, double *quotient, double *rest) {
    if (b == 0) return false;
    double mod = std::fmod(a, b), div = (a - mod) / b;
    if (mod != 0) {
        if ((b < 0) != (mod < 0)) {
            mod += b;
            div -= 1.0;
        }
    } else {
        mod = std::copysign(0.0, b);
    }
    double whole = std::copysign(0.0, a / b);
    if (div != 0) {
        whole = std::floor(div);
        if (div - whole > 0.5) whole += 1.0;
    }
    *quotient = whole;
    *rest = mod;
    return true;
}

/* A float without a fraction as an int. */
bool to_int(double whole, int64_t *result) {
    constexpr double bound = 9223372036854775808.0;
    if (!(whole >= -bound && whole < bound)) return false;
    *result = static_cast<int64_t>(whole);
    return true;
}

}  // namespace

bool ShapeProgram::read(const int64_t *word, const int64_t *end, size_t inputs) {
    auto fits = [&](size_t size) { return word < end && *word >= 0 && static_cast<size_t>(*word) <= static_cast<size_t>(end - word - 1) / size; };
    if (!fits(1)) return false;
    registers.assign(inputs, 0);
    registers.insert(registers.end(), word + 1, word + 1 + *word);
    word += 1 + *word;
    if (!fits(4)) return false;
    results = registers.size();
    registers.resize(results + static_cast<size_t>(*word), 0);
    for (word++; word != end; word += 4) {
        if (end - word < 4 || code.size() == registers.size() - results) return false;
        auto known = [&](int64_t operand) { return operand >= 0 && static_cast<size_t>(operand) < results + code.size(); };
        if (word[0] < 0 || static_cast<size_t>(word[0]) >= shape_operation_names.size() || !known(word[1]) || !known(word[2]) || !known(word[3])) return false;
        code.push_back({static_cast<ShapeOperation>(word[0]), static_cast<int32_t>(word[1]), static_cast<int32_t>(word[2]), static_cast<int32_t>(word[3])});
    }
    return code.size() == registers.size() - results;
}

bool ShapeProgram::holds(int64_t *of_caller) const {
    using enum ShapeOperation;
    const int64_t *const all = of_caller;
    int64_t *out = of_caller + results;
    for (const ShapeInstruction &step : code) {
        const int64_t a = all[step.first], b = all[step.second];
        int64_t &result = *out++;
        switch (step.operation) {
            case need: if (a == 0) return false; break;
            case need_eq: if (a != b) return false; break;
            case need_ne: if (a == b) return false; break;
            case need_le: if (a > b) return false; break;
            case need_lt: if (a >= b) return false; break;
            case need_divisible: if (!remainder(a, b, &result) || result != 0) return false; break;
            case add: if (__builtin_add_overflow(a, b, &result)) return false; break;
            case sub: if (__builtin_sub_overflow(a, b, &result)) return false; break;
            case mul: if (__builtin_mul_overflow(a, b, &result)) return false; break;
            case floordiv: if (!divide(a, b, &result)) return false; break;
            case mod: if (!remainder(a, b, &result)) return false; break;
            case power: if (!framejit::power(a, b, &result)) return false; break;
            case minimum: result = a < b ? a : b; break;
            case maximum: result = a > b ? a : b; break;
            case magnitude:
                if (a == std::numeric_limits<int64_t>::min()) return false;
                result = a < 0 ? -a : a;
                break;
            case bit_and: result = a & b; break;
            case bit_or: result = a | b; break;
            case bit_xor: result = a ^ b; break;
            case shift_left: if (!framejit::shift_left(a, b, &result)) return false; break;
            case shift_right:
                if (b < 0) return false;
                result = a >> (b < 63 ? b : 63);
                break;
            case eq: result = a == b; break;
            case ne: result = a != b; break;
            case le: result = a <= b; break;
            case lt: result = a < b; break;
            case both: result = a & b; break;
            case either: result = a | b; break;
            case negation: result = a == 0; break;
            case select: result = a != 0 ? b : all[step.third]; break;
            case to_float: result = bits_of(static_cast<double>(a)); break;
            case same_float:
                if (!is_exact(a)) return false;
                result = bits_of(static_cast<double>(a));
                break;
            case true_divide:
                if (b == 0 || !is_exact(a) || !is_exact(b)) return false;
                result = bits_of(static_cast<double>(a) / static_cast<double>(b));
                break;
            case float_add: result = bits_of(as_float(a) + as_float(b)); break;
            case float_sub: result = bits_of(as_float(a) - as_float(b)); break;
            case float_mul: result = bits_of(as_float(a) * as_float(b)); break;
            case float_divide:
                if (as_float(b) == 0) return false;
                result = bits_of(as_float(a) / as_float(b));
                break;
            case float_power: {
                double value;
                if (!framejit::float_power(as_float(a), as_float(b), &value)) return false;
                result = bits_of(value);
                break;
            }
            case float_root:
                if (as_float(a) < 0) return false;
                result = bits_of(std::sqrt(as_float(a)));
                break;
            case float_magnitude: result = bits_of(std::fabs(as_float(a))); break;
            case float_eq: result = as_float(a) == as_float(b); break;
            case float_ne: result = as_float(a) != as_float(b); break;
            case float_le: result = as_float(a) <= as_float(b); break;
            case float_lt: result = as_float(a) < as_float(b); break;
            case float_floordiv:
            case float_mod: {
                double quotient, rest;
                if (!float_divmod(as_float(a), as_float(b), &quotient, &rest)) return false;
                result = bits_of(step.operation == float_mod ? rest : quotient);
                break;
            }
            case float_exp:
                if (!std::isfinite(as_float(a)) || !std::isfinite(std::exp(as_float(a)))) return false;
                result = bits_of(std::exp(as_float(a)));
                break;
            case float_log:
            case float_log2:
            case float_log10: {
                const double number = as_float(a);
                if (!(number > 0) || std::isinf(number)) return false;
                result = bits_of(step.operation == float_log ? std::log(number) : step.operation == float_log2 ? std::log2(number) : std::log10(number));
                break;
            }
            case common_divisor:
                if (a == std::numeric_limits<int64_t>::min() || b == std::numeric_limits<int64_t>::min()) return false;
                result = std::gcd(a, b);
                break;
            case truncate: if (!to_int(std::trunc(as_float(a)), &result)) return false; break;
            case floor: if (!to_int(std::floor(as_float(a)), &result)) return false; break;
            case ceiling: if (!to_int(std::ceil(as_float(a)), &result)) return false; break;
            case nearest: if (!to_int(std::nearbyint(as_float(a)), &result)) return false; break;
        }
    }
    return true;
}

}  // namespace framejit
