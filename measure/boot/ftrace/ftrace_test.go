package ftrace

import (
	"fmt"
	"strings"
	"testing"

	"bakeoff/base/bootmodel"
	"bakeoff/measure/boot/boottest"
)

func TestFtrace(t *testing.T) { boottest.Run(t, New()) }

const graphs = `# tracer: function_graph
#
    1.000001 |   0)   init-1      |   2.500 us    |        } /* lost_before */
    1.000002 |   0)   init-1      |               |  a() {
    1.000003 |   1)   udevd-70    |   1.250 us    |  other [virtio]();
    1.000003 |   0)   init-1      |   1.750 us    |    b();
    1.000004 |   0)   init-1      |   0.500 us    |    c();
    1.000004 |   0)   init-1      |               |    /* hello */
    1.000005 |   0)   init-1      |   ==========> |
    1.000006 |   0)   init-1      | # 4000.000 us |  }
 ------------------------------------------
 0)     init-1     =>   udevd-70
 ------------------------------------------
    1.000008 |   0)               |  d() {
CPU:0 [LOST 12 EVENTS]
    1.000020 |   0)   0.250 us    |  e();
    1.000021 |   0)               |  f() {
`

// spansOf lists the spans of a trace.
func spansOf(t *testing.T, text string) (got []string, r bootmodel.Recording) {
	t.Helper()
	r, err := New().Read("x", []byte(text))
	boottest.Check(t, New(), "x", r, err)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Spans {
		got = append(got, fmt.Sprintf("%s %d+%d<%d on %s %v", s.Label(), s.Start-1e9, s.End-s.Start, s.Parent,
			r.Tracks[s.Track].ID, s.Open))
	}
	return got, r
}

// extended has the arguments of funcgraph-args and the comments of funcgraph-retaddr and -retval.
const extended = `# tracer: function_graph
    1.000001 |   0)   init-1      |               |  a(fn=0xffffffff81000000, level=6) {
    1.000002 |   0)   init-1      |   1.750 us    |    b [virtio](dev=0x0); /* <-a+0x50/0x300 ret=0x0 */
    1.000004 |   0)   init-1      |   0.500 us    |    c(); /* = -19 */
    1.000005 |   0)   init-1      |               |    d() { /* <-a+0x50/0x300 */
    1.000006 |   0)   init-1      |   1.000 us    |    } /* d ret=0x0 */
    1.000008 |   0)   init-1      |   7.000 us    |  } /* a = 0x0 */
`

func TestArgumentsAndReturnValues(t *testing.T) {
	got, r := spansOf(t, extended)
	want := "a 1000+7000<-1 on 1 false\nb virtio 2000+1750<0 on 1 false\nc 4000+500<0 on 1 false\n" +
		"d 5000+1000<0 on 1 false"
	if strings.Join(got, "\n") != want || len(r.Notes) > 0 {
		t.Errorf("%s\nwant\n%s\nnotes %+v", strings.Join(got, "\n"), want, r.Notes)
	}
}

// A line that is missing changes no time of the functions around it.
func TestAMissingLineShiftsNothing(t *testing.T) {
	for _, tt := range []struct{ line, want, note string }{
		{"    d() {", "a 1000+7000<-1 on 1 false", "1 returns have no call in the trace; they were left out."},
		{"    } /* d", "a 1000+7000<-1 on 1 false, d 5000+3000<0 on 1 true", "1 calls have no return"},
		{"  a(", "d 5000+1000<-1 on 1 false", "1 returns have no call in the trace; they were left out."},
	} {
		var kept []string
		for line := range strings.Lines(extended) {
			if !strings.Contains(line, "|"+tt.line) && !strings.Contains(line, ");") {
				kept = append(kept, line)
			}
		}
		got, r := spansOf(t, strings.Join(kept, ""))
		if strings.Join(got, ", ") != tt.want || len(r.Notes) != 1 || !strings.HasPrefix(r.Notes[0].Text, tt.note) {
			t.Errorf("without %q: %q, want %q; notes %+v", tt.line, got, tt.want, r.Notes)
		}
	}
}

func TestGraphsAreSpans(t *testing.T) {
	got, r := spansOf(t, graphs)
	want := `a 2000+4000<-1 on 1 false
other virtio 3000+1250<-1 on 70 false
b 3000+1750<0 on 1 false
c 4750+500<0 on 1 false
d 8000+0<-1 on 70 true
e 20000+250<-1 on 70 false
f 21000+0<-1 on 70 true`
	if strings.Join(got, "\n") != want {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
	if len(r.Marks) != 2 || r.Marks[1].Name != "hello" || len(r.Notes) != 2 || !r.Notes[0].Lost || !r.Notes[1].Lost {
		t.Errorf("marks %+v, notes %+v", r.Marks, r.Notes)
	}
}

func TestMistakes(t *testing.T) {
	const head = "# tracer: function_graph\n"
	boottest.Mistakes(t, New(), map[string]string{
		"x:1: the file is empty":               " ",
		"x:1: the file has no line":            "# tracer: nop\n",
		"x:1: the trace has no entry":          head,
		"x:2: the line does not begin with a":  head + " 0)   1.000 us |  f();\n",
		"x:2: the line does not name its CPU":  head + "1.000000 | sh-1 | 1.000 us |  f();\n",
		"x:2: the function has no duration in": head + "1.000000 | 0) sh-1 |  |  f();\n",
		"x:2: the line is neither a call nor":  head + "1.000000 | 0) sh-1 | 1.000 us |  f\n",
		"x:2: the function has no name":        head + "1.000000 | 0) sh-1 | 1.000 us |  ();\n",
		"x:1002: more than 1000 functions":     head + strings.Repeat("1.000000 | 0) sh-1 |  |  f() {\n", maxDepth+1),
	})
}

func FuzzFtrace(f *testing.F) { boottest.Fuzz(f, New(), graphs, extended) }
