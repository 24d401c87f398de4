"""Numbers that no run can use: in settings, on command lines and in the environment.

Each trial fails if such a number is truncated to another one, causes a crash, or is rejected without its name, value and range.
"""
BEYOND = ("4294967298", "1099511627776", "1180591620717411303424", "-4294967294", "99999999999999999999999999")
NO_WHOLE_NUMBERS = ("1.5", "1e3", "two", "")


def lockstep(bench, *args, env=None):
    return bench.run([str(bench.programs / "lockstep"), *map(str, args)], timeout=30, env=env)


def require_refused(ended, *words):
    output = ended.stdout + ended.stderr
    assert ended.returncode == 64, f"exit code {ended.returncode}, not 64: {output[-500:]}"
    for word in words:
        assert word in output, f"no '{word}' in: {output[-500:]}"


def settings_beyond_their_range_are_refused(bench):
    # Keys that become 32-bit numbers somewhere, or memory sizes and thread counts.
    keys = {"captcha": ("replicas", "threads", "workers", "prefetch_factor", "batch_size", "accumulate_steps",
                        "data.length", "data.width"),
            "detection": ("image_size", "num_classes", "model.queries"),
            "segmentation": ("augment.crop", "eval.window"),
            "captioning": ("model.dim", "eval.beam_size")}
    for recipe, names in keys.items():
        for number, key in enumerate(names):
            value = BEYOND[number % len(BEYOND)]
            require_refused(lockstep(bench, "inspect", "config", recipe, "--set", f"{key}={value}"),
                            f"{key} is {value}; it must be ", " .. ")
    for value in BEYOND:
        require_refused(lockstep(bench, "inspect", "config", "captcha", "--set", f"replicas={value}"),
                        f"replicas is {value}; it must be 0 .. 1,000,000")


def what_is_no_whole_number_is_refused(bench):
    for value in NO_WHOLE_NUMBERS:
        require_refused(lockstep(bench, "inspect", "config", "captcha", "--set", f"epochs={value}"),
                        f"epochs is '{value}', not an integer", "1 .. 100,000,000")


def a_file_with_such_a_number_is_refused_by_its_line(bench):
    path = bench.folder / "x.yml"
    path.write_text("recipe: captcha\nreplicas: 4294967298\n")
    require_refused(lockstep(bench, "train", path), "x.yml:2: replicas is 4294967298; it must be 0 .. 1,000,000")


def a_run_folder_with_such_a_number_starts_nothing(bench):
    data = bench.folder / "data"
    made = lockstep(bench, "generate", "captcha", "--out", data, "--count", 8, "--seed", 0)
    assert made.returncode == 0, made.stderr
    run = bench.folder / "run"
    run.mkdir()
    (run / "config.yml").write_text("recipe: captcha\nreplicas: 4294967298\n")
    ended = lockstep(bench, "train", "captcha", "--nproc-per-node", 1, "--run-dir", run, "--resume", "auto", "--set",
                     f"data.train={data}", "--set", "data.test=", "--set", "max_steps=1")
    require_refused(ended, "replicas is 4294967298; it must be 0 .. 1,000,000")


def options_beyond_their_range_are_refused(bench):
    for name, most in (("--nproc-per-node", "1,000,000"), ("--max-restarts", "1,000,000"), ("--nnodes", "1,000,000"),
                       ("--node-rank", "1,000,000"), ("--master-port", "65,535")):
        for verb in (("run",), ("train", "captcha", "--set", "data.train=x")):
            for value in (BEYOND[0], BEYOND[2], "1.5"):
                words = [*verb, name, value] + (["--", "true"] if verb == ("run",) else [])
                require_refused(lockstep(bench, *words), value, most)


def numbers_of_the_environment_are_refused(bench):
    place = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT"):
        ended = lockstep(bench, "train", "captcha", "--set", "data.train=x", env={**place, name: BEYOND[0]})
        require_refused(ended, name, BEYOND[0])
    ended = lockstep(bench, "train", "captcha", "--set", "data.train=x", env={**place, "LOCKSTEP_TIMEOUT": "1e300"})
    require_refused(ended, "LOCKSTEP_TIMEOUT is '1e300'", "1,000,000,000")


TRIALS = [
    ("config", settings_beyond_their_range_are_refused, 1),
    ("config", what_is_no_whole_number_is_refused, 1),
    ("config", a_file_with_such_a_number_is_refused_by_its_line, 1),
    ("config", a_run_folder_with_such_a_number_starts_nothing, 1),
    ("config", options_beyond_their_range_are_refused, 1),
    ("config", numbers_of_the_environment_are_refused, 1),
]
