"""Counts of what was read from the disk."""

from engine.core.disk_reads import UNKNOWN, DiskReads, as_object, difference, disk_report, widest


def test_a_difference_is_what_happened_in_between():
    earlier = (DiskReads("experts", 10, 1000, 50, 2.0),)
    later = (DiskReads("experts", 14, 1400, 51, 3.5), DiskReads("rows", 2, 8192, 0, 0.5))
    assert difference(later, earlier) == (
        DiskReads("experts", 4, 400, 1, 1.5),
        DiskReads("rows", 2, 8192, 0, 0.5),
    )


def test_tiers_of_which_nothing_was_wanted_are_left_out():
    same = (
        DiskReads("experts", 10, 1000, 50, 2.0),
        DiskReads("pages", 3, UNKNOWN, UNKNOWN, UNKNOWN),
    )
    assert difference(same, same) == ()


def test_what_cannot_be_known_stays_unknown_and_is_not_shown():
    pages = difference((DiskReads("pages", 5, UNKNOWN, UNKNOWN, UNKNOWN),), ())
    assert pages == (DiskReads("pages", 5, UNKNOWN, UNKNOWN, UNKNOWN),)
    assert as_object(pages, 10) == {"pages": {"reads": 5}}


def test_the_wait_is_told_for_each_token_of_the_answer_alone():
    reads = (DiskReads("experts", 1, 2, 3, 40.0),)
    assert disk_report(reads, reads, 8) == {
        "disk": {
            "prompt": {"experts": {"reads": 1, "bytes": 2, "hits": 3, "waited_ms": 40.0}},
            "answer": {
                "experts": {
                    "reads": 1,
                    "bytes": 2,
                    "hits": 3,
                    "waited_ms": 40.0,
                    "waited_ms_per_token": 5.0,
                }
            },
        }
    }
    assert disk_report((), (), 8) == {}


def test_of_times_that_overlap_the_widest_counts():
    assert widest(
        (DiskReads("experts", 1, 2, 3, 4.0),), (DiskReads("experts", 2, 3, 3, 5.0),), ()
    ) == (DiskReads("experts", 2, 3, 3, 5.0),)
