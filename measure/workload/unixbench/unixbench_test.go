package unixbench

import (
	"context"
	"math"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/reach/loop"
	"bakeoff/reach/wire"
)

func TestMain(m *testing.M) { workloadtest.Main(m, Loop()) }

func TestSuite(t *testing.T) {
	workloadtest.Run(t, execution.Native(New()), workloadtest.Options{
		Common: param.Values{"time": "40ms"},
		Cells: []param.Values{{"test": "double"}, {"test": "execl"}, {"test": "shell8"}, {"test": "whetstone"},
			{"test": "pipe"}},
	})
}

func TestRoundIsExact(t *testing.T) {
	got, want := round(), exactRound()
	if got != want || math.IsNaN(got) || got == 0 || got == 1 {
		t.Errorf("a round gives %v, and with big numbers %v", got, want)
	}
}

// Every variable of Dhrystone is looked at: a pass that leaves one of its
// statements out is found.
func TestDhrystoneFindsWhatIsLeftOut(t *testing.T) {
	s := begin()
	for i := range 100 {
		s.pass(i + 1)
		if err := s.verify(i + 1); err != nil {
			t.Fatal(err)
		}
	}
	for name, damage := range map[string]func(*state){
		"a pass too few":     func(s *state) { s.array2[8][7]-- },
		"no assignment":      func(s *state) { s.local1 = 1 },
		"the other record":   func(s *state) { s.other.number = 17 },
		"a pointer":          func(s *state) { s.other.next = s.record },
		"a string":           func(s *state) { s.text2 = textThird },
		"a kind":             func(s *state) { s.record.kind = second },
		"the comparison":     func(s *state) { s.flag = false },
		"the first array":    func(s *state) { s.array1[8] = 0 },
		"the letters":        func(s *state) { s.letter2 = 'A' },
		"the number of runs": func(s *state) { s.number = 100 },
	} {
		bad := *s
		r, o := *s.record, *s.other
		bad.record, bad.other = &r, &o
		r.next, o.next = &o, &o
		if err := bad.verify(100); err != nil {
			t.Fatalf("a copy: %v", err)
		}
		damage(&bad)
		if err := bad.verify(100); !fault.Is(err, fault.Subject) {
			t.Errorf("%s: error is %v", name, err)
		}
	}
	for _, text := range []string{textSome, textFirst, textSecond, textThird} {
		if len(text) != 30 {
			t.Errorf("%q is not thirty characters long", text)
		}
	}
}

// A row of programs is as long as was asked for: a row that ends early ends
// with another code.
func TestRowsOfPrograms(t *testing.T) {
	e, err := execl(t.Context(), loop.Env{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 2, 5} {
		if err := e.do(n); err != nil {
			t.Errorf("%d programs: %v", n, err)
		}
	}
	for _, args := range [][]string{nil, {"-1"}, {"x"}, {"1", "2"}} {
		if code := replace(args); code != wire.ExitInvalid {
			t.Errorf("%q ends with %d", args, code)
		}
	}
}

func TestScripts(t *testing.T) {
	lines, counted := text()
	n := 0
	for l := range strings.Lines(lines) {
		if strings.Contains(l, "the") {
			n++
		}
	}
	if n == 0 || n == 500 || strings.Count(lines, "\n") != 500 || counted == "0" {
		t.Errorf("%d of %d lines have the word; %s were counted", n, strings.Count(lines, "\n"), counted)
	}
	dir := t.TempDir()
	if _, err := shell8(t.Context(), loop.Env{}); !fault.Is(err, fault.Invalid) {
		t.Errorf("without a directory: %v", err)
	}
	s, err := shell8(t.Context(), loop.Env{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.do(1); err != nil {
		t.Error(err)
	}
	// Scripts that count something else, or fail, are failures of the subject.
	if err := scripts(t.Context(), dir, dir+"/shell8/text", "1"); !fault.Is(err, fault.Subject) {
		t.Errorf("another count: %v", err)
	}
	err = scripts(t.Context(), dir, dir+"/nothing", counted)
	if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), dir+"/nothing") {
		t.Errorf("no text: %v", err)
	}
	t.Setenv("PATH", dir)
	if _, err := shell8(context.Background(), loop.Env{Dir: dir}); !fault.Is(err, fault.Unsupported) {
		t.Errorf("without a shell: %v", err)
	}
}

// Every pass of Whetstone gives the published values, bit for bit the same.
func TestWhetstone(t *testing.T) {
	w, err := whetstone(t.Context(), loop.Env{})
	if err != nil || w.do(2) != nil {
		t.Fatal(err)
	}
	if answer, err := w.check(); err != nil || !strings.Contains(answer, "0.83467") {
		t.Errorf("%s, %v", answer, err)
	}
	if got := whetstonePass(); got[7][0] == 0.75 || got[4][0] == 0.5 {
		t.Errorf("a module did nothing: %v", got)
	}
}
