"""Budgets of CUDA kernels: most that any kernel may need on sm_90, and the named exceptions of today with reasons."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from tests.parity.cuda_kernels import KernelResources

KIB = 1024


@dataclass(frozen=True)
class Budget:
    """Upper limits of what one kernel needs; the names are those of ``KernelResources``."""

    registers: int = 128
    """Registers of a thread: with more, fewer than 16 of 64 warps are resident, and with 256 threads a block 8."""
    stack_bytes: int = 64
    """Local memory of a thread [B]: some kilobytes of it leave the first cache."""
    code_bytes: int = 64 * KIB
    """Machine code [B]: half of the instruction cache that the warps of a multiprocessor share."""
    parameter_bytes: int = 4 * KIB
    """Parameters of a launch [B]: the limit of drivers before CUDA 12.1, and what every launch copies."""


SLOWER_APART = "with the few arrays that it needs in place of whole structs it takes 5 to 25 % longer on a CPU"
WHOLE_STRUCTS = "structs of arrays are passed whole, 56 bytes an array; CUDA 12.1 and later take 32,764 bytes"


@dataclass(frozen=True)
class Exceptional:
    """A kernel over the general budget, with its own limits and the reason."""

    reason: str
    limits: Mapping[str, int]

    @property
    def budget(self) -> Budget:
        return replace(Budget(), **self.limits)


def _of(reason: str, **limits: int) -> Exceptional:
    return Exceptional(reason, limits)


LARGE_PARAMETERS = 7 * KIB + 512
"""Parameters of a kernel over the budget [B]; the largest, ``move``, has 7,424."""

EXCEPTIONS: dict[str, Exceptional] = {
    "avoid_collisions": _of(
        "tests boxes against terrain and mechs at eight places of its source, each inlined; the list of near mechs "
        "is an array of its own",
        registers=184,
        stack_bytes=256,
        code_bytes=280 * KIB,
        parameter_bytes=LARGE_PARAMETERS,
    ),
    "control_weapons": _of("one thread weighs all weapons and targets of a mech", parameter_bytes=LARGE_PARAMETERS),
    "allocate_by_quota": _of(
        "one thread ranks the contacts of a mech in lists of its own, which are local memory; a warp per mech would "
        "share them",
        registers=255,
        stack_bytes=2432,
        code_bytes=352 * KIB,
    ),
    "allocate_by_suite": _of(
        "as allocate_by_quota", stack_bytes=512, code_bytes=80 * KIB, parameter_bytes=LARGE_PARAMETERS
    ),
    "write_squad": _of("one thread ranks the mates of a mech in lists of its own", stack_bytes=192),
    "plan_movement": _of(
        "all tactics of the pilots in one kernel", code_bytes=72 * KIB, parameter_bytes=LARGE_PARAMETERS
    ),
    "fire_weapons": _of(
        "the loop over weapons is unrolled: a rolled one has 25 kB and takes 38 % longer on a CPU",
        code_bytes=140 * KIB,
        parameter_bytes=LARGE_PARAMETERS,
    ),
    "fly": _of("one thread casts the rays of all rounds of a mech, unrolled", code_bytes=104 * KIB),
}
"""Kernels over the general budget, by name."""

WITH_LARGE_PARAMETERS = {
    WHOLE_STRUCTS: ("apply_hits", "deploy_smoke", "fresh_mechs", "land", "steer", "update_outcome"),
    SLOWER_APART: (
        "accelerate", "balance", "choose_targets", "credit_hits", "defend", "move", "move_apart", "move_near",
        "resolve_deaths", "stamp_wrecks", "thermals",
    ),
}  # fmt: skip
"""Further kernels whose parameters alone are over the budget, by reason."""
EXCEPTIONS |= {
    name: _of(reason, parameter_bytes=LARGE_PARAMETERS)
    for reason, names in WITH_LARGE_PARAMETERS.items()
    for name in names
}


def budget_of(kernel: str) -> Budget:
    return EXCEPTIONS[kernel].budget if kernel in EXCEPTIONS else Budget()


def over_budget(row: KernelResources) -> list[str]:
    budget = budget_of(row.kernel)
    return [
        f"{row.kernel}: {name} {getattr(row, name)}, expected at most {getattr(budget, name)}"
        for name in (limit.name for limit in fields(Budget))
        if getattr(row, name) > getattr(budget, name)
    ]


def needless_limits(row: KernelResources) -> list[str]:
    if row.kernel not in EXCEPTIONS:
        return []
    return [
        f"{row.kernel}: {name} {getattr(row, name)} fits the general budget; remove it from the exception"
        for name in EXCEPTIONS[row.kernel].limits
        if getattr(row, name) <= getattr(Budget(), name)
    ]
