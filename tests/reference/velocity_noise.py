"""xoshiro256++ and the ziggurat in plain Python, as their authors wrote them down."""

from math import exp, log, sqrt

MASK = (1 << 64) - 1
LAYERS, TAIL, AREA = 128, 3.442619855899, 9.91256303526217e-3


def tables():
    edges = [AREA / exp(-0.5 * TAIL * TAIL), TAIL]
    f = exp(-0.5 * TAIL * TAIL)
    for i in range(2, LAYERS):
        edges.append(sqrt(-2.0 * log(AREA / edges[i - 1] + f)))
        f = exp(-0.5 * edges[i] * edges[i])
    edges.append(0.0)
    return edges


class Generator:
    def __init__(self, words):
        self.s = [int(word) for word in words]
        self.edges = tables()

    def bits(self):
        s = self.s
        result = (rotate((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)
        return result

    def normal(self):
        while True:
            bits = self.bits()
            layer, u = bits & (LAYERS - 1), 2.0 * uniform(bits) - 1.0
            right, left = self.edges[layer], self.edges[layer + 1]
            if abs(u) < left / right:
                return u * right
            if layer == 0:
                return self.tail(u < 0)
            x = u * right
            f0, f1 = exp(-0.5 * (right * right - x * x)), exp(-0.5 * (left * left - x * x))
            if f1 + uniform(self.bits()) * (f0 - f1) < 1.0:
                return x

    def tail(self, negative):
        while True:
            x = log(uniform(self.bits())) / TAIL
            y = log(uniform(self.bits()))
            if -2.0 * y >= x * x:
                return x - TAIL if negative else TAIL - x


def rotate(x, k):
    return ((x << k) | (x >> (64 - k))) & MASK


def uniform(bits):
    return ((bits >> 12) + 0.5) * (1.0 / 4503599627370496.0)
