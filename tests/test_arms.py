from fairaudit.report.facts import Schedule


def test_eight_steps_are_kept_from_the_first_to_the_last_unless_a_distance_is_given():
    steps = Schedule(n_public=23512, steps_per_epoch=92, epochs=20).kept(None)
    assert len(set(steps)) == 8
    assert (steps[0], steps[-1]) == (0, 1839)
    assert Schedule(n_public=50, steps_per_epoch=5, epochs=1).kept(None) == (0, 1, 2, 3, 4)
    assert Schedule(n_public=50, steps_per_epoch=40, epochs=3).kept(50) == (0, 50, 100)
