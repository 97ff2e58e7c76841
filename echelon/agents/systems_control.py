# type: ignore
"""Systems control: electronic warfare, contact display, target preference and smoke of a scripted pilot."""

import warp as wp

from echelon.actions import HOSTILE_ONLY, OBS_CTRL_START, TARGET_DIM, TARGET_START, ActionIndex
from echelon.agents.levels import EwarUse, Skill, SmokeUse
from echelon.agents.memory import Assignment, PilotMemory, Targets
from echelon.agents.routes import REACH
from echelon.agents.targets import FIRST_LEVEL_SCRIPT
from echelon.agents.tracks import PACK, PilotState, pilot_of, recall
from echelon.agents.weapons_control import TRIGGER_COLUMN
from echelon.env.observe.ego import missile_inbound
from echelon.env.referee import in_zone
from echelon.nav.waypoints import AHEAD, FlowFields, shortest_layer, waypoint
from echelon.sim.geometry import cos_sin
from echelon.sim.raycast import sight_clear
from echelon.sim.state import Controls, Episode, Events, Mechs, Rounds, Senses, World
from echelon.sim.tables import NUM_WEAPONS, Rules

wp.set_module_options({"enable_backward": False, "fuse_fp": False})

TARGET_AT, SORT_AT, FILTER_AT = wp.constant(TARGET_START), wp.constant(OBS_CTRL_START), wp.constant(HOSTILE_ONLY)
"""Action columns of the first target preference, of sorting contacts by distance and of hiding friends."""
TARGET_SLOTS = wp.constant(TARGET_DIM)
ECM_ON, ECCM_ON = wp.constant(0.25), wp.constant(0.75)
"""Values of a scout's SECONDARY column."""
WEAPON_COUNT = wp.constant(NUM_WEAPONS)
SECONDARY = wp.constant(int(ActionIndex.SECONDARY))
EWAR_OFF, _ECM, EWAR_COOL, EWAR_SUPPORT, EWAR_SILENT = (wp.constant(int(use)) for use in EwarUse)
SMOKE_NEVER, SMOKE_DEFENSIVE, SMOKE_SCREENING = (wp.constant(int(use)) for use in SmokeUse)
EWAR_HOT, POOR_QUALITY = wp.constant(0.7), wp.constant(0.7)
"""Heat [share of the cap] above which ECCM replaces ECM, and pack sensor quality below which it does."""
SMOKE_HURT = wp.constant(0.35)
"""Hit points below which a hit pilot deploys smoke [share]."""
SMOKE_SIGHT = wp.constant(20.0)
"""Range of a visible hostile within which a pilot on open ground deploys smoke [vox]."""
COVER_CELLS, COVER_STEP = wp.constant(8), wp.constant(2)
"""Cells of the path ahead that are searched for cover, and the distance of the samples."""
MATE_LINE_GAP = wp.constant(3.0)
"""Least distance of a smoke burst from a packmate's line of sight to its target [vox]."""


@wp.func
def ewar_column(skill: Skill, heat_share: float, quality: float, contact: bool) -> float:
    """Return a scout's SECONDARY column from its heat, the mean sensor quality of its packmates and its contact."""
    if skill.ewar == EWAR_OFF or (skill.ewar == EWAR_SILENT and not contact):
        return 0.0
    if skill.ewar == EWAR_COOL and heat_share > EWAR_HOT:
        return ECCM_ON
    if skill.ewar >= EWAR_SUPPORT and quality < POOR_QUALITY:
        return ECCM_ON
    return ECM_ON


@wp.func
def pack_quality(mechs: Mechs, senses: Senses, e: int, m: int) -> float:
    """Return the mean sensor quality of a pilot's living packmates, 1 without any."""
    total = float(0.0)
    n = float(0.0)
    first = m - m % PACK
    for k in range(first, first + PACK):
        if k != m and mechs.alive[e, k] == 1:
            total += senses.quality[e, k]
            n += 1.0
    return wp.where(n > 0.0, total / wp.max(n, 1.0), 1.0)


@wp.func
def smoke_weapon(rules: Rules, c: int) -> int:
    """Return the weapon of chassis c that bursts into smoke, -1 without one."""
    found = int(-1)
    for w in range(WEAPON_COUNT):
        if rules.weapons[w].bursts_smoke == 1 and rules.trigger_of[c, w] >= 0:
            found = w
    return found


@wp.func
def segment_distance(point: wp.vec3, a: wp.vec3, b: wp.vec3) -> float:
    """Return the distance of a point from the segment a to b [vox]."""
    along = b - a
    t = wp.clamp(wp.dot(point - a, along) / wp.max(1.0e-6, wp.dot(along, along)), 0.0, 1.0)
    return wp.length(point - a - along * t)


@wp.func
def burst_position(reach: float, p: wp.vec3, target: int, spot: wp.vec3, cs: wp.vec2) -> wp.vec3:
    """Return where smoke is expected to burst: at the target, or straight ahead at its range ``reach`` [vox]."""
    if target >= 0 and wp.length(spot - p) <= reach:
        return spot
    return p + wp.vec3(cs[0] * reach, cs[1] * reach, 0.0)


@wp.func
def blocks_packmate(mechs: Mechs, assignment: Assignment, targets: Targets, e: int, m: int, burst: wp.vec3) -> bool:
    """Return whether smoke at ``burst`` comes between a packmate and the target it sees."""
    first = m - m % PACK
    for k in range(first, first + PACK):
        if k != m and mechs.alive[e, k] == 1 and assignment.crew[e, k] >= FIRST_LEVEL_SCRIPT:
            if targets.pilot_target[e, k] >= 0 and targets.pilot_sees[e, k] == 1:
                if segment_distance(burst, mechs.pos[e, k], targets.pilot_spot[e, k]) <= MATE_LINE_GAP:
                    return True
    return False


@wp.func
def nearest_in_sight(pilot: PilotState, mechs: Mechs, perception: PilotMemory) -> wp.vec4:
    """Return the position of the nearest hostile in a pilot's sight and its distance [vox], 1e9 without one."""
    e = pilot.env
    m = pilot.mech
    found = wp.vec4(0.0, 0.0, 0.0, 1.0e9)
    for j in range(mechs.team.shape[1]):
        if mechs.team[e, j] != mechs.team[e, m]:
            track = recall(pilot, mechs, perception, j)
            d = wp.length(track.pos - mechs.pos[e, m])
            if track.sees == 1 and d < found[3]:
                found = wp.vec4(track.pos[0], track.pos[1], track.pos[2], d)
    return found


@wp.func
def cover_ahead(flow: FlowFields, world: World, e: int, c: int, p: wp.vec3, foot: float, eye: wp.vec3) -> bool:
    """Return whether the shortest path to the zone leads out of sight of ``eye`` within COVER_CELLS."""
    layer = shortest_layer(world.map_slot[e], c)
    for i in range(COVER_STEP, COVER_CELLS + 1, COVER_STEP):
        ahead = waypoint(flow, layer, world.size[e], p, foot, i)
        if ahead[2] != AHEAD:
            return False
        if not sight_clear(world.sight_plane, e, world.size[e], eye, wp.vec3(ahead[0], ahead[1], p[2])):
            return True
    return False


@wp.kernel
def control_systems(
    rules: Rules,
    skills: wp.array[Skill],
    mechs: Mechs,
    senses: Senses,
    controls: Controls,
    assignment: Assignment,
    targets: Targets,
    actions_out: wp.array3d[wp.float32],
):
    """Write the columns of electronic warfare, contact display and target preference."""
    e, m = wp.tid()
    if assignment.script[e, m] < FIRST_LEVEL_SCRIPT or mechs.alive[e, m] == 0:
        return
    skill = skills[assignment.script[e, m] - FIRST_LEVEL_SCRIPT]
    c = mechs.chassis[e, m]
    j = targets.pilot_target[e, m]
    actions_out[e, m, SORT_AT] = 1.0
    actions_out[e, m, FILTER_AT] = 1.0
    if rules.chassis[c].has_ewar == 1:
        share = mechs.heat[e, m] / rules.chassis[c].heat_cap
        actions_out[e, m, SECONDARY] = ewar_column(skill, share, pack_quality(mechs, senses, e, m), j >= 0)
    if j >= 0 and skill.requests_target == 1:
        for k in range(TARGET_SLOTS):
            if controls.contact[e, m, k] == j:
                actions_out[e, m, TARGET_AT + k] = 1.0


@wp.func
def defends_with_smoke(
    rules: Rules, skill: Skill, mechs: Mechs, events: Events, rounds: Rounds, e: int, m: int
) -> bool:
    """Return whether a pilot wants smoke toward its visible target: damaged and hit, or painted and chased."""
    if skill.smoke < SMOKE_DEFENSIVE:
        return False
    hurt = mechs.hp[e, m] < SMOKE_HURT * rules.chassis[mechs.chassis[e, m]].hp
    if events.was_hit[e, m] == 1 and hurt:
        return True
    return mechs.painted[e, m] > 0 and missile_inbound(
        rules, e, m, mechs.team, rounds.round_weapon, rounds.round_target
    )


@wp.func
def in_the_open(
    rules: Rules, pilot: PilotState, flow: FlowFields, world: World, mechs: Mechs, perception: PilotMemory
) -> bool:
    """Return whether a near hostile beyond own gun range sees a pilot outside the zone, without cover on its path."""
    e = pilot.env
    p = mechs.pos[e, pilot.mech]
    c = mechs.chassis[e, pilot.mech]
    if pilot.skill.smoke < SMOKE_SCREENING or in_zone(world.zone[e], p):
        return False
    eye = nearest_in_sight(pilot, mechs, perception)
    if eye[3] > SMOKE_SIGHT or eye[3] <= REACH[c]:
        return False
    return not cover_ahead(flow, world, e, c, p, p[2] - rules.chassis[c].half[2], wp.vec3(eye[0], eye[1], eye[2]))


@wp.kernel
def deploy_smoke(
    rules: Rules,
    skills: wp.array[Skill],
    flow: FlowFields,
    world: World,
    episode: Episode,
    mechs: Mechs,
    events: Events,
    rounds: Rounds,
    assignment: Assignment,
    perception: PilotMemory,
    targets: Targets,
    actions_out: wp.array3d[wp.float32],
):
    """Write the trigger of the smoke weapon: for defence, or to hide on open ground."""
    e, m = wp.tid()
    if assignment.script[e, m] < FIRST_LEVEL_SCRIPT or mechs.alive[e, m] == 0:
        return
    skill = skills[assignment.script[e, m] - FIRST_LEVEL_SCRIPT]
    w = smoke_weapon(rules, mechs.chassis[e, m])
    if skill.smoke == SMOKE_NEVER or w < 0:
        return
    j = targets.pilot_target[e, m]
    wants = bool(False)
    if j >= 0 and targets.pilot_sees[e, m] == 1:
        wants = defends_with_smoke(rules, skill, mechs, events, rounds, e, m)
    if not wants:
        pilot = pilot_of(skill, mechs, perception, e, m, episode.decision[e])
        wants = in_the_open(rules, pilot, flow, world, mechs, perception)
    if wants:
        spot = targets.pilot_spot[e, m]
        burst = burst_position(rules.weapons[w].range_vox, mechs.pos[e, m], j, spot, cos_sin(mechs.yaw[e, m]))
        if not blocks_packmate(mechs, assignment, targets, e, m, burst):
            actions_out[e, m, TRIGGER_COLUMN[rules.trigger_of[mechs.chassis[e, m], w]]] = 1.0
