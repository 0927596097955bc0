package ftrace

import (
	"fmt"
	"strings"
	"testing"

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

func TestGraphsAreSpans(t *testing.T) {
	r, err := New().Read("x", []byte(graphs))
	boottest.Check(t, New(), "x", r, err)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range r.Spans {
		got = append(got, fmt.Sprintf("%s %d+%d<%d on %s %v", s.Label(), s.Start-1e9, s.End-s.Start, s.Parent,
			r.Tracks[s.Track].ID, s.Open))
	}
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

func FuzzFtrace(f *testing.F) { boottest.Fuzz(f, New(), graphs) }
