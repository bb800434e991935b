"""A small writer of vyre functions: values with operators, one line of text for each operation.

Names come from `let`; what is not named is called after its operation. Used by `derive.py`.
"""

import contextlib
import inspect
import json
import math
import pathlib
import struct
import subprocess
import textwrap


def sollya(script):
    """The lines that a Sollya script prints."""
    run = subprocess.run(["sollya"], input=script, capture_output=True, text=True, check=True)
    return run.stdout.split()


def fpminimax(function, monomials, interval, fixed="0", mode="relative", bits=None):
    """Coefficients in f64 of the best polynomial over given monomials; `fixed` is a part that stays as it is."""
    formats = "[|" + ",".join(bits[m] if bits and m in bits else "D" for m in monomials) + "|]"
    spec = "[|" + ",".join(map(str, monomials)) + "|]"
    script = (
        f"prec=300!; f={function}; p=fpminimax(f, {spec}, {formats}, {interval}, floating, {mode}, {fixed});"
        f"display=hexadecimal!; for i in {spec} do print(coeff(p-({fixed}), i));"
        f"display=decimal!; prec=60!; print(dirtyinfnorm((p-f)/({'f' if mode == 'relative' else '1'}), {interval}));quit;"
    )
    cache = pathlib.Path(__file__).with_name("coefficients.json")
    known = json.loads(cache.read_text()) if cache.exists() else {}
    if script not in known:
        known[script] = sollya(script)
        cache.write_text(json.dumps(known, indent=0, sort_keys=True))
    *coefficients, error = known[script]
    coefficients = [float.fromhex(c) for c in coefficients[-len(monomials):]]
    print(f"# {function} on {interval}: 2^{math.log2(float(error)):.1f}")
    return coefficients


def single(x):
    """The nearest f32."""
    return struct.unpack("<f", struct.pack("<f", x))[0]


def literal(value, ty):
    if ty in ("f64", "f32"):
        if math.isinf(value):
            return "inf" if value > 0 else "-inf"
        return "nan" if math.isnan(value) else repr(float(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return hex(value) if abs(value) > 9999 else str(value)


class V:
    """A value of a function being written."""

    def __init__(self, f, name, ty):
        self.f, self.name, self.ty = f, name, ty

    def _2(self, op, other, swap=False):
        args = (other, self) if swap else (self, other)
        return self.f.op(op, self.ty, *args)

    def __add__(self, o): return self._2("add", o)
    def __radd__(self, o): return self._2("add", o, True)
    def __sub__(self, o): return self._2("sub", o)
    def __rsub__(self, o): return self._2("sub", o, True)
    def __mul__(self, o): return self._2("mul", o)
    def __rmul__(self, o): return self._2("mul", o, True)
    def __truediv__(self, o): return self._2("div", o)
    def __rtruediv__(self, o): return self._2("div", o, True)
    def __and__(self, o): return self._2("and", o)
    def __or__(self, o): return self._2("or", o)
    def __xor__(self, o): return self._2("xor", o)
    def __lshift__(self, n): return self._2("shl", n)
    def __rshift__(self, n): return self._2("shr", n)
    def __neg__(self): return self.f.op("neg", self.ty, self)
    def __lt__(self, o): return self._2("lt", o)
    def __le__(self, o): return self._2("le", o)
    def __gt__(self, o): return self._2("gt", o)
    def __ge__(self, o): return self._2("ge", o)
    def eq(self, o): return self._2("eq", o)
    def ne(self, o): return self._2("ne", o)
    def cast(self, ty): return self.f.op("cast", ty, self)
    def bits(self, ty): return self.f.op("bitcast", ty, self)
    def copysign(self, o): return self._2("copysign", o)
    def mul_hi(self, o): return self._2("mul_hi", o)

    def __getattr__(self, op):
        if op in ("sqrt", "abs", "round", "floor", "trunc", "is_nan", "is_inf", "clz"):
            return lambda: self.f.op(op, self.ty, self)
        raise AttributeError(op)


BOOL = {"lt", "le", "gt", "ge", "eq", "ne", "is_nan", "is_inf"}


class Fn:
    """A function being written."""

    known = {}

    def __init__(self, name, params, result, about=None):
        caller = inspect.currentframe().f_back
        self.about = about or getattr(caller.f_globals.get(caller.f_code.co_name), "__doc__", None) or ""
        self.name, self.result, self.lines, self.used, self.depth = name, result, [], {}, 1
        self.params = [V(self, self.fresh(p), ty) for p, ty in params]
        Fn.known[name] = result

    def fresh(self, name):
        self.used[name] = self.used.get(name, -1) + 1
        return name if self.used[name] == 0 else self.fresh(f"{name}.{self.used[name]}")

    def line(self, text):
        self.lines.append("  " * self.depth + text)

    def comment(self, text):
        self.line("// " + text)

    def arg(self, value, ty):
        if isinstance(value, int) and ty in ("f64", "f32"):
            value = float(value)
        if isinstance(value, V):
            return "%" + value.name
        return literal(value, ty)

    def op(self, op, ty, *args):
        name = self.fresh(op)
        types = [ty] * len(args)
        if op in ("shl", "shr"):
            types = [ty, "u32"]
        if op == "select":
            types = ["bool", ty, ty]
        text = ", ".join(self.arg(a, t) for a, t in zip(args, types))
        self.line(f"%{name} = {op}.{ty} {text}")
        return V(self, name, "bool" if op in BOOL else ty)

    def let(self, name, value):
        """Names the value of the last line."""
        head = f"%{value.name} ="
        assert self.lines[-1].strip().startswith(head), (self.lines[-1], head)
        new = self.fresh(name)
        self.lines[-1] = self.lines[-1].replace(head, f"%{new} =", 1)
        value.name = new
        return value

    def fma(self, a, b, c):
        return self.op("fma", next(v.ty for v in (a, b, c) if isinstance(v, V)), a, b, c)

    def select(self, c, a, b):
        ty = next((v.ty for v in (a, b) if isinstance(v, V)), "f64")
        return self.op("select", ty, c, a, b)

    def load(self, table, ty, index):
        name = self.fresh("load")
        self.line(f"%{name} = load.{ty} @{table}[{self.arg(index, 'u32')}]")
        return V(self, name, ty)

    def call(self, function, *args):
        name = self.fresh("call")
        self.line(f"%{name} = call @{function}({', '.join(self.arg(a, 'f64') for a in args)})")
        return V(self, name, Fn.known[function])

    def var(self, name, ty, init):
        name = self.fresh(name)
        self.line(f"var ${name} : {ty} = {self.arg(init, ty)}")
        return (name, ty)

    def get(self, var):
        name = self.fresh(var[0])
        self.line(f"%{name} = get.{var[1]} ${var[0]}")
        return V(self, name, var[1])

    def set(self, var, value):
        self.line(f"set.{var[1]} ${var[0]}, {self.arg(value, var[1])}")

    @contextlib.contextmanager
    def if_(self, cond):
        self.line(f"if {self.arg(cond, 'bool')} {{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    @contextlib.contextmanager
    def for_(self, name, lo, hi):
        counter = V(self, self.fresh(name), "u32")
        self.line(f"for %{counter.name} in {lo}..{hi} {{")
        self.depth += 1
        yield counter
        self.depth -= 1
        self.line("}")

    def poly(self, x, coefficients, name="p"):
        """The polynomial with these coefficients, lowest first: the even and the odd ones each as one chain in x^2."""
        def chain(power, items):
            total = items[-1]
            for item in reversed(items[:-1]):
                total = self.let(name, self.fma(total, power, item))
            return total

        if len(coefficients) <= 4:
            return chain(x, coefficients)
        square = self.let("x2", x * x)
        odd = chain(square, coefficients[1::2])
        return self.let(name, self.fma(odd, x, chain(square, coefficients[::2])))

    def estrin(self, x, coefficients, name="p"):
        """The polynomial with these coefficients, lowest first, in pairs: short chains of operations."""
        level, power = list(coefficients), x
        while len(level) > 1:
            nxt = []
            for at in range(0, len(level) - 1, 2):
                nxt.append(self.let(name, self.fma(level[at + 1], power, level[at])))
            if len(level) % 2:
                nxt.append(level[-1])
            level = nxt
            if len(level) > 1:
                power = self.let("x2" if power is x else "x4", power * power)
        return level[0]

    def ret(self, value):
        self.line(f"return {self.arg(value, self.result)}")
        params = ", ".join(f"%{p.name} : {p.ty}" for p in self.params)
        about = "".join(f"// {line}\n" for line in textwrap.wrap(" ".join(self.about.split()), 112))
        return f"{about}fn @{self.name}({params}) -> {self.result} {{\n" + "\n".join(self.lines) + "\n}\n"


def table(name, ty, values):
    items = ", ".join(literal(v, ty) for v in values)
    return f"const @{name} : {ty}[{len(values)}] = [{items}]\n"
