package command

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestExtract(t *testing.T) {
	for _, c := range []struct {
		spec, out string
		want      float64
		says      string // of the error
	}{
		{"last-line", "a 1\nops/s: 1234.5,\n\n", 1234.5, ""},
		{"last-line", "took 5 of 7 seconds", 7, ""},
		{"last-line", "", 0, "printed nothing"},
		{"last-line", "1\nnothing", 0, "no number"},
		{"last-line", "nan inf 0x10 1_000", 0, "no number"},
		{`regexp:^rate=(\S+)$`, "rate=1\nxrate=2\nrate=3e2\n", 300, ""},
		{`regexp:rate=(\S+)`, "rate=fast", 0, "not a number"},
		{`regexp:rate=(\d+)`, "none", 0, "matches"},
		{`regexp:(\d+)`, "1 2\r\n3 4\r\nnone", 3, ""},
		{`regexp:^(\d+)$`, "\n\n7\r\n", 7, ""},
		{`regexp:(` + strings.Repeat("a", 300) + `)`, "", 0, "limit is 256"},
		{`regexp:rate`, "", 0, "got 0"},
		{`regexp:(a)(b)`, "", 0, "got 2"},
		{`regexp:(`, "", 0, "missing closing"},
		{`json:$`, "41 42", 42, ""},
		{`json:$.a["b.c"][1]`, `{"a":{"b.c":[1,2.5]}}`, 2.5, ""},
		{`json:$.a[-1]`, `{"a":[1,9]}`, 9, ""},
		{`json:$.a[2]`, `{"a":[1,9]}`, 0, "with an element 2"},
		{`json:$.a.b`, `{"a":[1,9]}`, 0, "$.a is not an object"},
		{`json:$.b`, `{"a":1}`, 0, `has no member "b"`},
		{`json:$.a`, `{"a":true}`, 0, "$.a is not a number"},
		{`json:$.a`, `{"a":1} trailing`, 0, "not JSON"},
		{`json:$.a`, ``, 0, "not JSON"},
		{`json:a`, ``, 0, "invalid path"}, {`json:$..a`, ``, 0, "invalid path"}, {`json:$[`, ``, 0, "invalid path"},
		{`json:$["a]`, ``, 0, "invalid path"}, {`json:$[x]`, ``, 0, "invalid path"}, {`json:$a`, ``, 0, "invalid path"},
		{"json:", "", 0, "write last-line"}, {"", "", 0, "write last-line"},
	} {
		x, err := newExtractor(c.spec)
		var got float64
		if err == nil {
			got, err = x([]byte(c.out))
		}
		if c.says == "" && (err != nil || got != c.want) {
			t.Errorf("%s of %q is %g (%v), want %g", c.spec, c.out, got, err, c.want)
		}
		if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s of %q: %g, error %v, want %q", c.spec, c.out, got, err, c.says)
		}
	}
}

// A stranger's expression and output may not stop a reader for long: one match
// a line is linear in the output, where all matches are not.
func TestExpressionsEnd(t *testing.T) {
	x, err := newExtractor(`regexp:(a)(?:a{0,900}){1,1}b|a`)
	if err != nil {
		t.Fatal(err)
	}
	from := time.Now()
	_, _ = x([]byte(strings.Repeat(strings.Repeat("a", 1000)+"\n", 40)))
	if d := time.Since(from); d > 20*time.Second {
		t.Errorf("40 kB took %v", d)
	}
}

// FuzzExtract gives any expression and any output: what comes is a number.
func FuzzExtract(f *testing.F) {
	f.Add("last-line", "a 1\nb 2")
	f.Add(`regexp:x=(\d+)`, "x=5")
	f.Add(`json:$.a["b"][-1]`, `{"a":{"b":[1,"2"]}}`)
	f.Add("json:$[9223372036854775807]", "[1]")
	f.Fuzz(func(t *testing.T, spec, out string) {
		x, err := newExtractor(spec)
		if err != nil {
			return
		}
		if v, err := x([]byte(out)); err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
			t.Errorf("%q finds %g in %q", spec, v, out)
		}
	})
}
