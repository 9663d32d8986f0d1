from skillopt_ci.messages import Message
from skillopt_ci.tasks.task import Task, TaskFile
from skillopt_ci.training.guard import Answers, normalised

LONG = "First take the inner sum, then divide the result by seven and round it down to an integer."


def task(name: str, *references: str, asked: str = "ask", text: str = "", file: str = "") -> Task:
    files = (TaskFile("f", file),) if file else ()
    message = (Message("user", asked),)
    return Task(name, message, references, files=files, reference_text=text)


def found(text: str, *tasks: Task, known: str = "") -> str:
    return Answers.of(tasks).given_away(text, known)


def test_an_answer_is_found_in_other_letters_and_punctuation() -> None:
    one = task("t1", "Blue Heron Press | 12.50 EUR")
    assert found("Write *blue heron press, 12.50 eur*!", one, task("t2", "other")) == "t1"


def test_only_whole_words_are_found() -> None:
    assert found("Nine hundred thousandths", task("t1", "nine hundred thousand")) == ""


def test_short_answers_and_numbers_tell_nothing() -> None:
    tasks = [task("t1", "yes"), task("t2", "4"), task("t3", "New York"), task("t4", "12.50")]
    assert found("yes, 4 of New York at 12.50", *tasks) == ""


def test_a_long_number_tells_something() -> None:
    assert found("It is 48,213.", task("t1", "48213"), task("t2", "48,213")) == "t2"


def test_labels_that_several_tasks_share_are_no_answers() -> None:
    tasks = [task("t1", "Not enough information"), task("t2", "not enough information")]
    assert found("Else say: not enough information.", *tasks) == ""


def test_vocabulary_of_other_prompts_is_no_answer() -> None:
    one = task("t1", "payment reversal")
    assert found("Say payment reversal.", one, task("t2", asked="Is a Payment reversal?")) == ""
    assert found("Say payment reversal.", one, task("t2", file="payment reversal")) == ""


def test_an_answer_in_its_own_prompt_is_still_one() -> None:
    one = task("t1", "Grand Hotel Budapest", asked="The Grand Hotel Budapest is …")
    assert found("Answer Grand Hotel Budapest.", one) == "t1"


def test_what_the_skill_says_already_is_no_news() -> None:
    assert found("internationally", task("t1", "internationally"), known="Internationally so") == ""


def test_a_run_of_words_gives_a_long_reference_away() -> None:
    one = task("t1", text=LONG)
    assert found("Always divide the result by seven and round it down.", one) == "t1"
    assert found("Divide the result by seven, not by six.", one) == ""


def test_boilerplate_of_long_references_tells_nothing() -> None:
    tasks = [task("t1", LONG + " Four."), task("t2", LONG + " Five.")]
    assert found("then divide the result by seven and round it", *tasks) == ""


def test_normalised_text_has_its_words_between_spaces() -> None:
    assert normalised("Ａ—b,  C_d!") == " a b c_d "
