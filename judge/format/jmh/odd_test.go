package jmh

import (
	"testing"

	"bakeoff/judge/format/formattest"
)

// One odd result, or one odd number, costs nothing else. What is missing is not zero.
func TestOddResults(t *testing.T) {
	out, err := New().Read("x", []byte(`[
{"benchmark": "a.B.c", "mode": "avgt",
 "primaryMetric": {"score": 1, "scoreUnit": "ns/op", "rawData": [[1, "NaN"], [3]]},
 "secondaryMetrics": {"·gc.time": {"score": "NaN", "scoreUnit": "ms"}}},
{"benchmark": "a.B.c", "mode": "avgt", "primaryMetric": {"score": 2, "scoreUnit": "ns/op"}},
{"benchmark": "a.B.d", "mode": "avgt"},
{"benchmark": 7}
]`))
	if err != nil || len(out.Records) != 2 || out.LeftOut != 4 {
		t.Fatalf("%+v, %v", out, err)
	}
	a, b := out.Records[0], out.Records[1]
	if len(a.Series) != 1 || len(a.Series[0].Values) != 2 || b.Labels[0].Value != "a.B.c #2" ||
		len(b.Series[0].Values) != 0 || *b.Series[0].Stats.Mean != 2e-9 {
		t.Errorf("%+v", out.Records)
	}
}

func TestMistakes(t *testing.T) {
	formattest.Mistakes(t, New(), []formattest.Mistake{
		{Name: "nothing", Text: "[]", Want: "x:1: the file has no results"},
		{Name: "no list", Text: "{}", Want: "x:1: the file is not a JSON array"},
		{Name: "no score", Text: `[{"benchmark": "a", "mode": "avgt", "primaryMetric": {"scoreUnit": "ns/op"}}]`,
			Want: "x:1: the primary metric of a has neither rawData nor a score"},
		{Name: "cut off", Text: "[\n{\"benchmark\"", Want: "x:2: the JSON ends too early"},
	})
}
