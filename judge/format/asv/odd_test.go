package asv

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

func TestMistakes(t *testing.T) {
	formattest.Mistakes(t, New(), []formattest.Mistake{
		{Name: "another version", Text: `{"commit_hash": "x", "version": 3, "results": {}}`,
			Want: "x:1: the file has version 3 of asv's results; bakeoff reads versions 1 and 2"},
		{Name: "no version", Text: `{"commit_hash": "x", "results": {}}`, Want: "x:1: the file has no version of asv's"},
		{Name: "nothing", Text: `{"version": 2, "results": {}}`, Want: "x:1: the file has no results"},
		{Name: "more columns than names", Text: `{"version": 2, "result_columns": ["result"], "results": {"a": [[1], []]}}`,
			Want: `x:1: "a": 2 columns, and result_columns names 1`},
	})
}
