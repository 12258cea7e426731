"""Floating-point numbers as text, with exactly the digits of Java 8 to 18 (Double.toString, Float.toString).

The Hudi releases for Spark that share these tables run on Java 8, 11 and 17. Their digits follow Steele and White's
algorithm, stopped early, and are not always the shortest that identify the number: 1.0E23 is 9.999999999999999E22. Java
19 and later write the shortest digits (JDK-4511638). The two differ for a few numbers, mostly doubles from about 1.0E16
and floats from about 3.0E7.
"""

from __future__ import annotations

import math
import struct

_BITS = 52
"""The bits after the point of a double; a float's bits are shifted to the same place."""
_SMALLEST_POWER, _LARGEST_POWER = -21, 62
"""The powers of two for which whole-number arithmetic may suffice."""
_BITS_OF_5_POWERS = tuple((5**power).bit_length() for power in range(28))


def double_string(value: float) -> str:
    """The text of Double.toString."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", value))
    return _string(value, bits & (2**52 - 1), bits >> 52 & 0x7FF, 52, 1023)


def float_string(value: float) -> str:
    """The text of Float.toString, for a value that fits a float."""
    (bits,) = struct.unpack(">I", struct.pack(">f", value))
    return _string(value, bits & (2**23 - 1), bits >> 23 & 0xFF, 23, 127)


def _string(value: float, fraction: int, exponent: int, bits: int, bias: int) -> str:
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0.0"
    if exponent:
        fraction |= 1 << bits
        significant = bits + 1
    else:
        significant = fraction.bit_length()
        shift = bits + 1 - significant
        fraction <<= shift
        exponent = 1 - shift
    digits, point = _digits(fraction << (_BITS - bits), exponent - bias, significant)
    return sign + _placed(digits, point)


def _placed(digits: str, point: int) -> str:
    """Format the digits of 0.digits * 10**point: plain from 0.001 up to ten million, otherwise with an exponent."""
    if 0 < point < 8:
        whole, rest = digits[:point].ljust(point, "0"), digits[point:]
        return f"{whole}.{rest or '0'}"
    if -3 < point <= 0:
        return f"0.{'0' * -point}{digits}"
    return f"{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _digits(fraction: int, power: int, significant: int) -> tuple[str, int]:
    """The digits of ``fraction / 2**52 * 2**power``, and the position of the decimal point before them.

    Args:
        fraction: 53 bits, the first one set.
        power: The power of two.
        significant: The number of significant bits.
    """
    trailing = (fraction & -fraction).bit_length() - 1
    used = _BITS + 1 - trailing
    behind_point = max(0, used - power - 1)
    if behind_point == 0 and _SMALLEST_POWER <= power <= _LARGEST_POWER and used < 64:
        return _whole_digits(fraction, power, significant)
    return _fraction_digits(fraction >> trailing, power, used, behind_point, significant)


def _whole_digits(fraction: int, power: int, significant: int) -> tuple[str, int]:
    """The digits of a whole number, without those that the significant bits do not determine."""
    number = fraction << (power - _BITS) if power >= _BITS else fraction >> (_BITS - power)
    dropped = 0
    if power > significant and power - significant - 1 > 1:
        dropped = int((power - significant - 1) * math.log10(2))
        number, rest = divmod(number, 10**dropped)
        if dropped and rest >= 10**dropped // 2:
            number += 1
    text = str(number)
    return text.rstrip("0"), len(text) + dropped


def _fraction_digits(fraction: int, power: int, used: int, behind_point: int, significant: int) -> tuple[str, int]:
    """Generate digits one by one, until the number lies within half a unit of its last bit."""
    ten = _estimated_power_of_ten(fraction, power, used)
    fives_b = max(0, -ten)
    twos_b = fives_b + behind_point + power
    fives_s = max(0, ten)
    twos_s = fives_s + behind_point
    twos_m = twos_b - significant
    twos_b -= used - 1
    common = min(twos_b, twos_s)
    twos_b, twos_s, twos_m = twos_b - common, twos_s - common, twos_m - common
    if used == 1:
        # At a power of two, the next smaller number is only half as far away.
        twos_m -= 1
    if twos_m < 0:
        twos_b, twos_s, twos_m = twos_b - twos_m, twos_s - twos_m, 0
    b, s, m = (fraction * 5**fives_b) << twos_b, 5**fives_s << twos_s, 5**fives_b << twos_m
    width = _width(used + twos_b + _bits_of_5(fives_b), twos_s + 1 + _bits_of_5(fives_s + 1))
    tens = s * 10
    digits: list[int] = []
    digit, b = divmod(b, s)
    b, m = b * 10, _wrapped(m * 10, width)
    low, high = b < m, _is_above(b, m, tens, width)
    if digit == 0 and not high:
        ten -= 1
    else:
        digits.append(digit)
    if ten < -3 or ten >= 8:
        # Java always writes at least one digit after the point.
        low = high = False
    while not low and not high:
        digit, b = divmod(b, s)
        b, m = b * 10, _wrapped(m * 10, width)
        low, high = (b < m, _is_above(b, m, tens, width)) if m > 0 else (True, True)
        digits.append(digit)
    if high and (not low or 2 * b > tens or (2 * b == tens and digits[-1] % 2)):
        ten += _round_up(digits)
    return "".join(map(str, digits)), ten + 1


def _round_up(digits: list[int]) -> int:
    """Add one to the last digit; 1 if the number got longer, which only happens to nines."""
    place = len(digits) - 1
    while digits[place] == 9 and place > 0:
        digits[place] = 0
        place -= 1
    if digits[place] == 9:
        digits[place] = 1
        return 1
    digits[place] += 1
    return 0


def _estimated_power_of_ten(fraction: int, power: int, used: int) -> int:
    """The power of ten of the first digit, or one more."""
    mantissa = math.ldexp(fraction, 1 - used)
    return math.floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + power * 0.301029995663981)


def _bits_of_5(power: int) -> int:
    return _BITS_OF_5_POWERS[power] if power < len(_BITS_OF_5_POWERS) else power * 3


def _width(bits_b: int, bits_tens: int) -> int:
    """The width in bits of the integers that Java computes with; 0 for arbitrary precision."""
    if bits_b < 32 and bits_tens < 32:
        return 32
    return 64 if bits_b < 64 and bits_tens < 64 else 0


def _wrapped(number: int, width: int) -> int:
    """The number wrapped to that many bits, as a signed integer."""
    if not width:
        return number
    number &= (1 << width) - 1
    return number - (1 << width) if number >> (width - 1) else number


def _is_above(b: int, m: int, tens: int, width: int) -> bool:
    total = _wrapped(b + m, width)
    return total > tens if width else total >= tens
