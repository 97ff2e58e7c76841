"""Every kernel that has mutants, by the name of its module."""

from tests.kernel_mutants.damage import DAMAGE
from tests.kernel_mutants.fire import FIRE
from tests.kernel_mutants.motion import MOTION
from tests.kernel_mutants.projectiles import PROJECTILES
from tests.kernel_mutants.referee import REFEREE
from tests.kernel_mutants.sensing import SCAN, SENSING

KERNELS = {
    kernel.module.rpartition(".")[2]: kernel for kernel in (REFEREE, DAMAGE, MOTION, FIRE, PROJECTILES, SENSING, SCAN)
}
