import copy
import math

import numpy as np
import pytest
import torch
from forms import FORM, make_pool, make_public, make_task
from oracles import model
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from torch.testing import assert_close

from fairaudit.methods import teachers as pate
from fairaudit.methods.teachers import (
    assign_teachers,
    collect_votes,
    project_to_simplex,
    queries,
    query_rows,
    train_students,
)
from fairaudit.privacy.streams import numpy_stream

HARD, SOFT, PRINTED = FORM["pate-hard"], FORM["pate-soft"], FORM["pate-soft:no-project"]


RATE, PENALTY = 0.2, 0.3


def task_of(form=HARD, pool=None, **given):
    return make_task(form, pool or make_pool(), **{"teachers": 5, "queries": 20, **given})


def test_teachers_depend_on_the_record_and_the_seed_alone():
    ids = np.arange(1000)
    teachers = assign_teachers(ids, 7, 3)
    kept = np.delete(ids, [0, 17, 500])
    assert (assign_teachers(kept, 7, 3) == np.delete(teachers, [0, 17, 500])).all()
    assert (assign_teachers(ids[::-1].copy(), 7, 3) == teachers[::-1]).all()
    assert (assign_teachers(ids, 7, 4) != teachers).mean() > 0.5


@pytest.mark.parametrize("name", ["logistic", "mlp-relu"])
def test_every_teacher_casts_one_vote_and_an_empty_one_votes_class_0(name):
    task = task_of(teachers=40, pool=make_pool(60), model=model(name))
    teacher = assign_teachers(task.records, 40, task.seed)
    empty = 40 - len(np.unique(teacher))
    votes = collect_votes(task, queries(task))
    assert (votes.sum(1) == 40).all()
    assert empty > 3
    assert (votes[:, 0] >= empty).all()


@pytest.mark.parametrize("name", ["logistic", "mlp-relu"])
def test_a_teacher_of_one_class_votes_for_it(name):
    pool = make_pool(60)
    pool._table[:, 7:9] = torch.tensor([0.0, 1.0])
    task = task_of(teachers=2, pool=pool, model=model(name), epochs=20, learning_rate=0.1)
    votes = collect_votes(task, torch.from_numpy(make_public(20, seed=1).features * 0.1))
    assert (votes[:, 1] == 2).all()


@pytest.mark.parametrize("value", [1e9, float("inf"), float("nan")])
def test_what_a_teacher_sees_is_bounded(value, monkeypatch):
    seen, descents = [], []

    def watched(network, draw, descent):
        descents.append(descent)
        seen.extend(draw() for _ in range(5))

    monkeypatch.setattr(pate, "descend", watched)
    settings = {"n_public": 500, "learning_rate": RATE, "teacher_penalty": PENALTY}
    task = task_of(pool=make_pool(60, spoilt=value), model=model("mlp-relu"), **settings)
    assert (collect_votes(task, queries(task)).sum(1) == 5).all()
    assert descents == [pate.Descent(2 * 4, RATE, PENALTY)]  # 500 / 5 records in batches of 32
    lengths = torch.cat([inputs.norm(dim=-1) for inputs, _ in seen])
    assert lengths.max() <= pate.LONGEST * (1 + 1e-6)
    assert lengths.max() > 0.99 * pate.LONGEST or not math.isfinite(value)


def by_hand(start, batches):
    """A copy of the start after SGD on batches of inputs and target shares."""
    network = copy.deepcopy(start)
    moves = torch.optim.SGD(network.parameters(), lr=RATE, weight_decay=PENALTY)
    for x, targets in batches:
        moves.zero_grad()
        torch.nn.functional.cross_entropy(network(x), targets).backward()
        moves.step()
    return network


def linear_by_hand(x, labels):
    return LogisticRegression(C=1 / (len(x) * PENALTY), fit_intercept=False, tol=1e-8).fit(
        x, labels
    )


@pytest.mark.parametrize("name", ["logistic", "mlp-relu"])
def test_votes_are_those_of_teachers_trained_by_hand(name):
    pool, teachers = make_pool(90), 3
    task = task_of(
        pool=pool,
        model=model(name),
        teachers=teachers,
        public=make_public(400),
        queries=400,
        n_public=500,
        learning_rate=RATE,
        teacher_penalty=PENALTY,
    )
    x, labels = pool.everything().inputs, pool.labels[:90]
    asked, votes = queries(task), np.zeros((400, 2))
    teacher = assign_teachers(task.records, teachers, task.seed)
    for number in range(teachers):
        (rows,) = np.nonzero(teacher == number)
        if name == "logistic":
            constant = np.ones((400, 1))
            linear = linear_by_hand(np.hstack([x, constant[:90]])[rows], labels[rows])
            winners = linear.predict(np.hstack([asked, constant]))
        else:
            stream = numpy_stream(task.seed, "sampling", "teacher", number)
            batches = []
            for _ in range(12):  # two epochs of 500 / 3 records in batches of 32
                some = rows[stream.integers(len(rows), size=32)]
                batches.append((x[some], torch.nn.functional.one_hot(labels[some], 2).float()))
            winners = by_hand(task.model, batches)(asked).argmax(1).numpy()
        votes[np.arange(400), winners] += 1
    assert 0 < votes[:, 0].sum() < votes.sum()
    assert collect_votes(task, asked).tolist() == votes.tolist()


def test_fewer_queries_label_a_draw_of_the_pool():
    task, other = task_of(queries=12), task_of(queries=12, seed=1)
    rows = query_rows(task)
    assert len(rows.unique()) == 12
    assert np.array_equal(queries(task), task.public.features[rows])
    assert not torch.equal(rows, query_rows(other))
    assert torch.equal(query_rows(task_of(queries=30)), torch.arange(30))


def test_hard_labels_take_the_most_votes_and_ties_the_lowest_class():
    votes = torch.tensor([[3.0, 2.0, 0.0], [1.0, 2.0, 2.0]], dtype=torch.float64)
    noise = torch.zeros(2, 2, 3, dtype=torch.float64)
    noise[1, 0, 2] = 4.0
    labels = HARD.make().labels(task_of(), votes, noise)
    assert labels.argmax(-1).tolist() == [[0, 1], [2, 1]]
    assert (labels.sum(-1) == 1).all()


def test_soft_labels_are_projected_shares_and_the_printed_ones_are_not():
    votes = torch.tensor([[4.0, 1.0]], dtype=torch.float64)
    noise = torch.tensor([[[3.0, -3.0]], [[0.0, 0.0]]], dtype=torch.float64)
    projected, printed = (
        form.make().labels(task_of(form), votes, noise) for form in (SOFT, PRINTED)
    )
    assert_close(printed, torch.tensor([[[1.4, -0.4]], [[0.8, 0.2]]], dtype=torch.float64))
    assert_close(projected, torch.tensor([[[1.0, 0.0]], [[0.8, 0.2]]], dtype=torch.float64))


@pytest.mark.parametrize("classes", [2, 3, 7])
def test_the_projection_is_the_nearest_distribution(classes):
    shares = torch.randn(
        30, classes, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    found = project_to_simplex(shares)
    assert_close(found.sum(-1), torch.ones(30, dtype=torch.float64))
    assert (found >= 0).all()
    for row, ours in zip(shares.numpy(), found.numpy(), strict=True):
        best = minimize(
            lambda p, row: ((p - row) ** 2).sum(),
            np.full(classes, 1 / classes),
            (row,),
            bounds=[(0, 1)] * classes,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        )
        assert ((ours - row) ** 2).sum() <= best.fun + 1e-9
    assert_close(project_to_simplex(found), found)


@pytest.mark.parametrize("draws", [1, 3])
def test_students_of_a_network_are_those_trained_by_hand(draws):
    task = task_of(
        model=model("mlp-relu"),
        epochs=3,
        learning_rate=RATE,
        student_penalty=PENALTY,
        public=make_public(70),
        queries=70,
    )
    queried, generator = queries(task), torch.Generator().manual_seed(0)
    targets = torch.rand(draws, 70, 2, generator=generator, dtype=torch.float64).softmax(-1)
    students = train_students(task, queried, targets)
    stream = numpy_stream(task.seed, "sampling", "student")
    drawn = [stream.integers(70, size=32) for _ in range(3 * 3)]  # batches of 32 in 70 queries
    for number in range(draws):
        batches = [(queried[some], targets[number, some].float()) for some in drawn]
        expected = by_hand(task.model, batches).parameters()
        expected = torch.cat([part.detach().flatten() for part in expected])
        assert_close(students.theta[number], expected, rtol=1e-4, atol=1e-6)
