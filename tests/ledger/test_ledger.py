import pytest
from records import state_of

from skillopt_ci.config import config
from skillopt_ci.errors import RepositoryError
from skillopt_ci.ledger.evidence import Measurement
from skillopt_ci.ledger.folder import FIXED_FILES, CommittedFolder, RunFolder, document
from skillopt_ci.ledger.ledger import Ledger
from skillopt_ci.ledger.records import HistoryEntry, Snapshot, State


@pytest.mark.parametrize(
    "setting", ["core.splitIndex", "core.sparseCheckout", "index.sparse", "feature.manyFiles"]
)
def test_index_settings_leave_nothing_behind(bench, here, setting):
    bench.git(here, "config", setting, "true")
    before = {file.name for file in (here / ".git").iterdir()}
    bench.train(bench.open(here), "one\n")
    assert {file.name for file in (here / ".git").iterdir()} == before


def test_step_is_a_merge_that_first_parent_reads(bench, here, origin):
    ledger, _ = bench.trained(here, "one\n")
    tip = bench.train(ledger, "two\n")
    subjects = [commit.message.partition("\n")[0] for commit in ledger.log(tip, first_parent=True)]
    assert subjects == ["Merge two", "Merge one", "Change skills/SKILL.md"]
    assert bench.ref(origin, "refs/heads/skillopt/demo") == tip
    assert bench.ref(origin, "refs/heads/skillopt-candidate/") == ""


def test_revert_undoes_the_candidate_but_keeps_its_record(bench, here):
    ledger, candidate = bench.written(here, "worse\n")
    before = ledger.log(candidate, limit=1)[0].parents[0]
    reverted = ledger.commit((candidate,), before, {".skillopt/demo/note": "tried\n"}, "Revert")
    assert ledger.read(reverted, bench.skill) == "# Skill\n"
    assert ledger.read(reverted, ".skillopt/demo/note") == "tried\n"
    assert ledger.log(reverted, limit=1)[0].parents == (candidate,)


def test_hook_environment_is_not_believed(bench, here, repository, monkeypatch):
    def refs_and_index() -> tuple[str, bytes]:
        return bench.git(repository, "for-each-ref"), (repository / ".git/index").read_bytes()

    before = refs_and_index()
    with monkeypatch.context() as hook:
        for name, value in {"DIR": ".git", "INDEX_FILE": ".git/index", "WORK_TREE": "."}.items():
            hook.setenv(f"GIT_{name}", str(repository / value))
        ledger, _ = bench.trained(here, "one\n")
    assert ledger.git.folder == here
    assert refs_and_index() == before
    assert bench.ref(here, "refs/heads/skillopt/demo")


def test_linked_worktree_shares_the_run(bench, here):
    bench.git(here, "worktree", "add", "--quiet", "-b", "feature", "../linked")
    linked = bench.open(here.parent / "linked" / "skills")
    tip = bench.train(linked, "one\n")
    assert linked.git.folder == here.parent / "linked"
    assert linked.common_dir == bench.open(here).common_dir == here / ".git"
    assert bench.open(here).sync().tip == tip


def test_sha256_repository_works(bench, tmp_path):
    folder = tmp_path / "sha256"
    bench.git(tmp_path, "init", "--quiet", "--object-format=sha256", str(folder))
    bench.save(folder, bench.skill, "# Skill\n")
    ledger, tip = bench.trained(folder, "one\n")
    gone = ledger.commit((tip,), tip, {bench.skill: None}, "Remove")
    assert len(tip) == 64
    assert ledger.read(gone, bench.skill) is None


def test_without_a_remote_training_stays_local(bench, repository):
    ledger = bench.open(repository, remote="elsewhere")
    ledger.preflight(ledger.sync())
    tip = bench.train(ledger, "one\n")
    assert ledger.remote is None
    assert ledger.sync().tip == tip


@pytest.mark.parametrize("name", [".", "objects", "refs/heads"])
def test_a_folder_of_git_that_is_read_only_is_refused(bench, repository, name, monkeypatch):
    ledger, folder = bench.open(repository), repository / ".git" / name
    monkeypatch.setattr("os.access", lambda path, mode: path != folder)
    with pytest.raises(RepositoryError, match=f"{folder} is read-only"):
        ledger.preflight(ledger.sync())


def test_run_name_must_make_a_branch_that_is_not_the_base(bench, repository):
    with pytest.raises(RepositoryError, match=r"does not allow a branch 'skillopt/demo\.lock'"):
        Ledger.open(repository, "demo.lock", config.Git())
    with pytest.raises(RepositoryError, match="cannot be 'skillopt/demo'"):
        bench.open(repository, base="skillopt/demo")


FOLDER = RunFolder("demo")
ENTRY = HistoryEntry(
    kind="start", step=0, epoch=0, action="start", reason="a “reason”\nof two lines"
)


def folder(**files: str) -> CommittedFolder:
    return CommittedFolder("demo", {getattr(FOLDER, name): files[name] for name in files}.get)


def line(entry: HistoryEntry) -> str:
    return entry.model_dump_json() + "\n"


def state() -> State:
    nothing = Measurement(hard=0, soft=0, score=0)
    return state_of(Snapshot(sha256="a", step=0, origin="initial", measurement=nothing))


def test_every_file_is_in_the_run_s_own_folder():
    paths = [FOLDER.state, FOLDER.history, FOLDER.best_skill, FOLDER.initial_skill, FOLDER.step(7)]
    assert all(path.startswith(".skillopt/demo/") for path in paths)
    assert FOLDER.step(7) == ".skillopt/demo/steps/0007.json"
    assert FIXED_FILES[".skillopt/.gitattributes"] == "** linguist-generated=true\n"


def test_a_record_reads_back_as_it_was_written():
    assert folder(state=document(state())).read_state() == state()
    second = ENTRY.model_copy(update={"kind": "step", "step": 1, "reason": "lines\u2028of text"})
    text = line(ENTRY) + line(second)
    assert text.count("\n") == 2
    assert folder(history=text).read_history() == (ENTRY, second)


def test_what_is_not_there_has_not_happened():
    assert folder().read_state() is None
    assert folder().read_step(1) is None
    assert folder().read_history() == ()
    broken = folder(history=line(ENTRY) + '{"kind": "start"}\n')
    with pytest.raises(RepositoryError, match=r"history\.jsonl:2 .*: step: Field required") as told:
        broken.read_history()
    assert "git log -- .skillopt/demo/history.jsonl`" in told.value.hint


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("<<<<<<< HEAD", "the file"),
        (document(state()).replace('"run"', '"invented"'), "run"),
        (document(state()).replace('"step": 0', '"step": "x"'), "step"),
        (document(state()).replace('"step": 0', '"step": -1'), "step"),
        (document(state()).replace('"score": 0.0', '"score": Infinity'), "score"),
        (document(state()).replace('"accounts": []', '"accounts": 1'), "accounts"),
    ],
)
def test_a_state_of_another_making_is_refused_by_its_key(text, part):
    with pytest.raises(RepositoryError, match=rf"state\.json .* not a record .*{part}"):
        folder(state=text).read_state()


def test_a_text_is_read_once_for_each_kind_of_record():
    (first,), (again,) = (folder(history=line(ENTRY)).read_history() for _ in range(2))
    assert again is first
    with pytest.raises(RepositoryError, match="is not a record"):
        folder(state=line(ENTRY)).read_state()
    (other,) = folder(history=line(ENTRY).replace("two", "three")).read_history()
    assert other.reason == "a “reason”\nof three lines"
