BEGIN TRANSACTION;
CREATE TABLE entries (
    id TEXT PRIMARY KEY, ckpt_path TEXT NOT NULL, kind TEXT NOT NULL, commander_name TEXT, created_at TEXT NOT NULL,
    rating REAL NOT NULL, rd REAL NOT NULL, vol REAL NOT NULL, games INTEGER NOT NULL,
    first_rating REAL NOT NULL, first_rd REAL NOT NULL, first_vol REAL NOT NULL, first_games INTEGER NOT NULL,
    meta TEXT NOT NULL);
INSERT INTO "entries" VALUES('heuristic:easy','','heuristic',NULL,'2026-11-22T21:28:58Z',1.35371625193610157112e+03,1.37806471915472968699e+02,0.0599977719781915,12,1500.0,350.0,0.06,0,'{"level": "easy", "label": "easy"}');
INSERT INTO "entries" VALUES('heuristic:medium','','heuristic',NULL,'2026-11-22T21:28:58Z',1.64628374806389842889e+03,1.37806471915472968699e+02,0.0599977719781915,12,1500.0,350.0,0.06,0,'{"level": "medium", "label": "medium"}');
CREATE TABLE matches (
    id INTEGER PRIMARY KEY, period INTEGER NOT NULL REFERENCES periods (id), number INTEGER NOT NULL,
    blue TEXT NOT NULL REFERENCES entries (id), red TEXT NOT NULL REFERENCES entries (id), seed INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'planned', winner TEXT, reason TEXT NOT NULL DEFAULT '', note TEXT NOT NULL DEFAULT '',
    hp_blue REAL, hp_red REAL, score_blue REAL, score_red REAL, seconds REAL,
    replay TEXT NOT NULL DEFAULT '', played_at TEXT, UNIQUE (period, number));
INSERT INTO "matches" VALUES(1,1,0,'heuristic:easy','heuristic:medium',1073754169,'played','red','zone_control','',492.0,428.0,1.625,5.09283351898193359375e+00,10.0,'','2026-11-22T21:29:12Z');
INSERT INTO "matches" VALUES(2,1,1,'heuristic:medium','heuristic:easy',1073754169,'played','red','time_up','',4.2460000610351562502e+02,2.76399993896484375e+02,2.61992883682250976562e+00,2.77697443962097167968e+00,10.0,'','2026-11-22T21:29:12Z');
INSERT INTO "matches" VALUES(3,1,2,'heuristic:easy','heuristic:medium',1073764142,'played','blue','time_up','',2.41999984741210937499e+02,4.85599975585937500017e+02,3.3125,3.01092576980590820312e+00,10.0,'','2026-11-22T21:29:12Z');
INSERT INTO "matches" VALUES(4,1,3,'heuristic:medium','heuristic:easy',1073764142,'played','blue','time_up','',3.61799987792968749992e+02,317.0,4.485790252685546875e+00,1.86363625526428222656e+00,10.0,'','2026-11-22T21:29:12Z');
INSERT INTO "matches" VALUES(5,1,4,'heuristic:easy','heuristic:medium',1073774115,'played','red','time_up','',4.29600006103515624994e+02,307.0,2.24784517288208,4.22617864608764648437e+00,10.0,'','2026-11-22T21:29:12Z');
INSERT INTO "matches" VALUES(6,1,5,'heuristic:medium','heuristic:easy',1073774115,'played','blue','time_up','',342.0,3.65200012207031250006e+02,4.06946039199829101562e+00,2.29801726341247558593e+00,10.0,'','2026-11-22T21:29:12Z');
INSERT INTO "matches" VALUES(7,1,6,'heuristic:easy','heuristic:medium',1073784088,'played','red','zone_control','',2.98199981689453125005e+02,5.04800018310546875013e+02,1.8125,5.038478851318359375e+00,9.25,'','2026-11-22T21:29:12Z');
INSERT INTO "matches" VALUES(8,1,7,'heuristic:medium','heuristic:easy',1073784088,'played','red','time_up','',2.66399993896484375008e+02,2.78799987792968749999e+02,2.42558932304382324218e+00,4.21676158905029296875e+00,10.0,'','2026-11-22T21:29:12Z');
INSERT INTO "matches" VALUES(9,1,8,'heuristic:easy','heuristic:medium',1073794061,'played','red','zone_control','',4.2779998779296875e+02,4.27999969482421875003e+02,0.0,5.0,7.0,'','2026-11-22T21:29:12Z');
INSERT INTO "matches" VALUES(10,1,9,'heuristic:medium','heuristic:easy',1073794061,'played','blue','time_up','',4.53200012207031249994e+02,410.0,4.72727298736572265625e+00,1.25,10.0,'','2026-11-22T21:29:12Z');
INSERT INTO "matches" VALUES(11,1,10,'heuristic:easy','heuristic:medium',1073804034,'played','blue','zone_control','',467.0,3.51999969482421875004e+02,5.04854106903076171875e+00,0.8125,7.25,'','2026-11-22T21:29:13Z');
INSERT INTO "matches" VALUES(12,1,11,'heuristic:medium','heuristic:easy',1073804034,'played','blue','zone_control','',5.54200012207031250015e+02,486.0,5.16195821762085,0.375,6.25,'','2026-11-22T21:29:13Z');
INSERT INTO "matches" VALUES(13,2,0,'heuristic:easy','heuristic:medium',1073814007,'played','red','zone_control','',5.64599975585937500013e+02,6.24599975585937500005e+02,0.375,5.17653799057006835937e+00,5.5,'','2026-11-22T21:29:15Z');
INSERT INTO "matches" VALUES(14,2,1,'heuristic:medium','heuristic:easy',1073814007,'played','red','zone_control','',5.34400024414062500008e+02,5.21799987792968750005e+02,0.25,5.05934286117553710937e+00,5.25,'','2026-11-22T21:29:15Z');
INSERT INTO "matches" VALUES(15,2,2,'heuristic:easy','heuristic:medium',1073823980,'played','red','zone_control','',5.180999755859375e+02,4.89799987792968749989e+02,0.0,5.0,6.5,'','2026-11-22T21:29:15Z');
INSERT INTO "matches" VALUES(16,2,3,'heuristic:medium','heuristic:easy',1073823980,'planned',NULL,'','',NULL,NULL,NULL,NULL,NULL,'',NULL);
INSERT INTO "matches" VALUES(17,2,4,'heuristic:easy','heuristic:medium',1073833953,'planned',NULL,'','',NULL,NULL,NULL,NULL,NULL,'',NULL);
INSERT INTO "matches" VALUES(18,2,5,'heuristic:medium','heuristic:easy',1073833953,'planned',NULL,'','',NULL,NULL,NULL,NULL,NULL,'',NULL);
INSERT INTO "matches" VALUES(19,2,6,'heuristic:easy','heuristic:medium',1073843926,'planned',NULL,'','',NULL,NULL,NULL,NULL,NULL,'',NULL);
INSERT INTO "matches" VALUES(20,2,7,'heuristic:medium','heuristic:easy',1073843926,'planned',NULL,'','',NULL,NULL,NULL,NULL,NULL,'',NULL);
INSERT INTO "matches" VALUES(21,2,8,'heuristic:easy','heuristic:medium',1073853899,'planned',NULL,'','',NULL,NULL,NULL,NULL,NULL,'',NULL);
INSERT INTO "matches" VALUES(22,2,9,'heuristic:medium','heuristic:easy',1073853899,'planned',NULL,'','',NULL,NULL,NULL,NULL,NULL,'',NULL);
INSERT INTO "matches" VALUES(23,2,10,'heuristic:easy','heuristic:medium',1073863872,'planned',NULL,'','',NULL,NULL,NULL,NULL,NULL,'',NULL);
INSERT INTO "matches" VALUES(24,2,11,'heuristic:medium','heuristic:easy',1073863872,'planned',NULL,'','',NULL,NULL,NULL,NULL,NULL,'',NULL);
CREATE TABLE periods (
    id INTEGER PRIMARY KEY, job TEXT NOT NULL, round INTEGER NOT NULL, opened_at TEXT NOT NULL,
    closed_at TEXT, sequence INTEGER UNIQUE, UNIQUE (job, round));
INSERT INTO "periods" VALUES(1,'20260101-000000-arena-calm-fox',1,'2026-11-22T21:29:10Z','2026-11-22T21:29:13Z',1);
INSERT INTO "periods" VALUES(2,'20260101-000000-arena-calm-fox',2,'2026-11-22T21:29:13Z',NULL,NULL);
CREATE TABLE ratings (
    period INTEGER NOT NULL REFERENCES periods (id), entry TEXT NOT NULL REFERENCES entries (id),
    rating REAL NOT NULL, rd REAL NOT NULL, vol REAL NOT NULL, games INTEGER NOT NULL, PRIMARY KEY (period, entry));
INSERT INTO "ratings" VALUES(1,'heuristic:easy',1.35371625193610157112e+03,1.37806471915472968699e+02,0.0599977719781915,12);
INSERT INTO "ratings" VALUES(1,'heuristic:medium',1.64628374806389842889e+03,1.37806471915472968699e+02,0.0599977719781915,12);
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
INSERT INTO "settings" VALUES('glicko2','{"scale": 173.7178, "rating": 1500.0, "rd": 350.0, "vol": 0.06, "tau": 0.5, "epsilon": 1e-06, "min_information": 1e-12}');
INSERT INTO "settings" VALUES('env','{"world": {"size_x": 40, "size_y": 40, "size_z": 12, "voxel_size_m": 1.0, "ensure_connectivity": true, "connectivity": {"clearance_z": 4, "obstacle_inflate_radius": 1, "wall_cost": 80, "carve_width": 5, "max_digs": 3, "max_regenerations": 8}, "max_distance_ratio": 0.0}, "num_packs": 1, "map_size_range": null, "packs_per_team_range": null, "dt_sim": 0.05, "decision_repeat": 5, "max_episode_seconds": 10.0, "observation_mode": "partial", "obs_layout": "suite", "observe_target": false, "observe_scope": false, "observe_telemetry": false, "observe_comms": true, "observe_local_map": true, "comm_dim": 8, "enable_target_selection": true, "enable_ewar": true, "enable_obs_control": true, "enable_comm": true, "nav_mode": "off", "zone_radius_vox": 7.5, "contested_floor": 0.25, "zone_win_share": 0.5, "truncation_bootstraps": true, "gamma": 0.99, "physics": {"gravity_m_s2": 9.81, "damping": 0.98, "step_height_vox": 1.1, "step_max_vz": 1.0, "legged_speed": 0.4, "legged_jet": 0.5, "water_speed": 0.6, "lava_heat_s": 40.0, "lava_damage_s": 5.0, "debris_heat_s": 20.0, "debris_damage_s": 1.25, "water_cooling_s": 30.0, "vent_factor": 2.0, "ecm_heat_s": 3.0, "eccm_heat_s": 2.0, "shutdown_restart": 1.0, "max_stability": 100.0, "legged_max_stability": 50.0, "stand_up_stability": 50.0, "stability_regen_s": 10.0, "regen_legged_loss": 0.5, "regen_moving_loss": 0.5, "regen_suppressed_loss": 0.75, "regen_min": 0.1, "moving_vox_s": 1.0, "fallen_s": 3.0, "suppressed_s": 1.2, "painted_s": 5.0, "engaged_s": 2.0, "rear_cos": 0.707, "rear_factor": 1.5, "leg_height": 0.3, "leg_body_share": 0.5, "paint_bonus": 0.1, "radar_vox": 14.0, "bloom_heat": 0.8, "ewar_vox": 50.0, "ecm_weight": 0.85, "eccm_weight": 0.65, "own_eccm": false, "quality_min": 0.25, "quality_max": 1.5, "paint_quality": 0.7, "targeted_vox": 8.0, "acoustic_occlusion": 0.2, "smoke_radius_vox": 4.0, "smoke_life_s": 10.0, "ams_vox": 5.5, "ams_chance": 0.6, "ams_cooldown_s": 1.0, "homing_gain_s": 4.0, "loft": 0.5, "kinetic_cone_rad": 0.1, "kinetic_focus_cone_rad": 0.2, "spawn_jitter_vox": 0.25, "spawn_yaw_jitter_rad": 0.15, "landing": false, "landing_free_speed": 6.0, "landing_shock": 5.0, "landing_crash": 1.0}, "obs_norm": {"vel_scale_xy": 7.0, "vel_scale_z": 10.0, "heat_max_ratio": 2.0}, "display": {"memory_s": 5.0, "margin": 0.2, "noise": 0.1, "class_certainty": 0.5, "quality_age_s": 2.0, "jam_age_s": 2.0, "jam_confidence": 0.7, "jam_class": 0.5, "eccm_most": 0.5, "eccm_confidence": 0.5, "eccm_class": 0.3, "faint": 0.1, "collision_s": 1.0, "reactor_heat": 0.9, "low_stability": 20.0, "attention": 0, "fill": "quotas", "aim_cone_rad": 0.35, "keeps_slots": true, "alerts": true, "reports": true, "scope": true, "descriptor": true, "degrades": true, "oracle": false, "suites": "own"}, "reward": {"approach": 0.25, "approach_mode": "pbrs", "zone": 0.1, "damage": 0.005, "kill": 1.0, "assist": 0.5, "assist_period_s": 1.0, "death": -2.0, "win": 0.7, "loss": -0.7, "draw": 0.0, "contested_offense": 2.0, "contested_death": 0.5, "teammate_decay": 0.5, "team_alpha": 1.0}}');
CREATE TABLE styles (
    entry TEXT NOT NULL REFERENCES entries (id), name TEXT NOT NULL, value REAL NOT NULL, PRIMARY KEY (entry, name));
INSERT INTO "styles" VALUES('heuristic:easy','matches',15.0);
INSERT INTO "styles" VALUES('heuristic:easy','mechs',75.0);
INSERT INTO "styles" VALUES('heuristic:easy','shots.laser',104.0);
INSERT INTO "styles" VALUES('heuristic:easy','shots.gauss',23.0);
INSERT INTO "styles" VALUES('heuristic:easy','shots.autocannon',332.0);
INSERT INTO "styles" VALUES('heuristic:easy','shots.painter',98.0);
INSERT INTO "styles" VALUES('heuristic:easy','hits.laser',104.0);
INSERT INTO "styles" VALUES('heuristic:easy','hits.gauss',8.0);
INSERT INTO "styles" VALUES('heuristic:easy','hits.autocannon',111.0);
INSERT INTO "styles" VALUES('heuristic:easy','hits.painter',98.0);
INSERT INTO "styles" VALUES('heuristic:easy','damage.laser',1.52390004539489746096e+03);
INSERT INTO "styles" VALUES('heuristic:easy','damage.gauss',430.0);
INSERT INTO "styles" VALUES('heuristic:easy','damage.autocannon',9.25599988937377929701e+02);
INSERT INTO "styles" VALUES('heuristic:easy','range.laser',5.86557494640350341776e+02);
INSERT INTO "styles" VALUES('heuristic:easy','range.gauss',1.17900375366210937496e+02);
INSERT INTO "styles" VALUES('heuristic:easy','range.autocannon',943.154598236084);
INSERT INTO "styles" VALUES('heuristic:easy','range.painter',6.87661348342895507824e+02);
INSERT INTO "styles" VALUES('heuristic:easy','taken',3.78230001831054687489e+03);
INSERT INTO "styles" VALUES('heuristic:easy','zone_s',186.25);
INSERT INTO "styles" VALUES('heuristic:easy','life_s',533.75);
INSERT INTO "styles" VALUES('heuristic:easy','assists',41.0);
INSERT INTO "styles" VALUES('heuristic:easy','lost.laser',14.0);
INSERT INTO "styles" VALUES('heuristic:easy','lost.gauss',1.0);
INSERT INTO "styles" VALUES('heuristic:easy','kills',17.0);
INSERT INTO "styles" VALUES('heuristic:medium','matches',15.0);
INSERT INTO "styles" VALUES('heuristic:medium','mechs',75.0);
INSERT INTO "styles" VALUES('heuristic:medium','shots.laser',109.0);
INSERT INTO "styles" VALUES('heuristic:medium','shots.missile',22.0);
INSERT INTO "styles" VALUES('heuristic:medium','shots.gauss',23.0);
INSERT INTO "styles" VALUES('heuristic:medium','shots.autocannon',494.0);
INSERT INTO "styles" VALUES('heuristic:medium','shots.painter',146.0);
INSERT INTO "styles" VALUES('heuristic:medium','hits.laser',109.0);
INSERT INTO "styles" VALUES('heuristic:medium','hits.gauss',9.0);
INSERT INTO "styles" VALUES('heuristic:medium','hits.autocannon',151.0);
INSERT INTO "styles" VALUES('heuristic:medium','hits.painter',146.0);
INSERT INTO "styles" VALUES('heuristic:medium','damage.laser',1.56730004787445068364e+03);
INSERT INTO "styles" VALUES('heuristic:medium','damage.gauss',450.0);
INSERT INTO "styles" VALUES('heuristic:medium','damage.autocannon',1.31360003471374511721e+03);
INSERT INTO "styles" VALUES('heuristic:medium','range.laser',6.54139887332916259744e+02);
INSERT INTO "styles" VALUES('heuristic:medium','range.gauss',1.30250627517700195317e+02);
INSERT INTO "styles" VALUES('heuristic:medium','range.autocannon',1.15011342239379882811e+03);
INSERT INTO "styles" VALUES('heuristic:medium','range.painter',1.0531914958953857422e+03);
INSERT INTO "styles" VALUES('heuristic:medium','taken',3.21595007991790771476e+03);
INSERT INTO "styles" VALUES('heuristic:medium','zone_s',261.75);
INSERT INTO "styles" VALUES('heuristic:medium','life_s',564.75);
INSERT INTO "styles" VALUES('heuristic:medium','assists',46.0);
INSERT INTO "styles" VALUES('heuristic:medium','lost.gauss',2.0);
INSERT INTO "styles" VALUES('heuristic:medium','kills',30.0);
INSERT INTO "styles" VALUES('heuristic:medium','shots.flamer',31.0);
INSERT INTO "styles" VALUES('heuristic:medium','hits.flamer',31.0);
INSERT INTO "styles" VALUES('heuristic:medium','hits.missile',7.0);
INSERT INTO "styles" VALUES('heuristic:medium','damage.flamer',1.27400002479553222658e+02);
INSERT INTO "styles" VALUES('heuristic:medium','damage.missile',324.0);
INSERT INTO "styles" VALUES('heuristic:medium','range.flamer',1.10288667678833007812e+02);
INSERT INTO "styles" VALUES('heuristic:medium','range.missile',9.4278329849243164059e+01);
INSERT INTO "styles" VALUES('heuristic:medium','shutdowns',36.0);
INSERT INTO "styles" VALUES('heuristic:medium','lost.laser',12.0);
INSERT INTO "styles" VALUES('heuristic:medium','lost.flamer',1.0);
INSERT INTO "styles" VALUES('heuristic:easy','shots.flamer',9.0);
INSERT INTO "styles" VALUES('heuristic:easy','shots.missile',9.0);
INSERT INTO "styles" VALUES('heuristic:easy','hits.flamer',9.0);
INSERT INTO "styles" VALUES('heuristic:easy','hits.missile',6.0);
INSERT INTO "styles" VALUES('heuristic:easy','damage.flamer',3.52000010013580322265e+01);
INSERT INTO "styles" VALUES('heuristic:easy','damage.missile',256.0);
INSERT INTO "styles" VALUES('heuristic:easy','range.flamer',2.933882904052734375e+01);
INSERT INTO "styles" VALUES('heuristic:easy','range.missile',5.56248764991760253923e+01);
INSERT INTO "styles" VALUES('heuristic:easy','shutdowns',36.0);
INSERT INTO "styles" VALUES('heuristic:easy','lost.missile',3.0);
INSERT INTO "styles" VALUES('heuristic:easy','lost.autocannon',11.0);
INSERT INTO "styles" VALUES('heuristic:medium','friendly',45.0);
INSERT INTO "styles" VALUES('heuristic:medium','lost.autocannon',1.0);
INSERT INTO "styles" VALUES('heuristic:medium','lost.missile',1.0);
INSERT INTO "styles" VALUES('heuristic:easy','lost.flamer',1.0);
CREATE INDEX matches_blue ON matches (blue);
CREATE INDEX matches_red ON matches (red);
COMMIT;
PRAGMA user_version = 1;
