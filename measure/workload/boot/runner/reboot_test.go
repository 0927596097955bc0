package runner

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/suite"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload/boot"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// rebootable is a machine whose service answers before and after a reboot.
type rebootable struct {
	watched
	before, after string
	server        net.Listener
}

func (r rebootable) Boots() (before, after string) { return r.before, r.after }
func (r rebootable) Patience() time.Duration       { return time.Minute }
func (r rebootable) Connect(ctx context.Context, _ int) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", r.server.Addr().String())
}

// The log has a clock that is not placed, so that it is a note.
func (r rebootable) Exec(_ context.Context, c conn.Cmd) (conn.Exit, error) {
	fmt.Fprint(c.Stdout, `{"schema":"bakeoff/boot-log/v1","logs":[]}`)
	return conn.Exit{}, nil
}

// rebootTarget is a machine that shuts down 100 ms after the request and begins again after
// 200 ms. Its service answers all the time.
func rebootTarget(t *testing.T, before, after string) execution.Target {
	t.Helper()
	tg, m := target(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	suite.Accept(t, l, func(net.Conn) {})
	r := rebootable{watched{mute: m, info: driver.Info{OwnKernel: true, Agent: "/agent"}}, before, after, l}
	tg.Subject = inside{r}
	tg.Fresh = func(context.Context) (driver.Instance, []execution.Mark, error) {
		asked := time.Now()
		at := func(ms time.Duration) time.Time { return asked.Add(ms * time.Millisecond) }
		fresh := r
		fresh.seen = driver.Moments{Absent: map[string]string{bootmodel.MarkVCPU: "no", bootmodel.MarkFirmware: "no",
			bootmodel.MarkUserland: "no"}, List: []driver.Moment{{Name: bootmodel.MarkDown, At: at(100), How: "x"},
			{Name: bootmodel.MarkClock, At: at(200), How: "x"}, {Name: bootmodel.MarkKernel, At: at(200), How: "x"}}}
		time.Sleep(time.Until(at(300)))
		return inside{fresh}, []execution.Mark{{Name: "asked", At: asked}, {Name: "up", At: time.Now()}}, nil
	}
	return tg
}

// What a service answered before the new boot does not count. The first answer after the
// clock of the new boot was 0 does, and the proof of the reboot is kept.
func TestReboot(t *testing.T) {
	tg := rebootTarget(t, "one", "two")
	raw, err := New().Run(t.Context(), tg, param.Values{boot.ParamAnswer: "tcp:80"})
	if err != nil {
		t.Fatal(err)
	}
	values, err := New().Parse(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, v := range values {
		got[v.Metric] = v.Value
	}
	if got[boot.BootReady] <= .2 || got[boot.Ready] < .3 || got[boot.Shutdown] != .1 {
		t.Errorf("%v\n%s", got, raw[boot.Blob])
	}
	if s := string(raw[boot.Blob]); !strings.Contains(s, `"reboot":{"before":"one","after":"two"}`) {
		t.Errorf("no proof: %s", s)
	}
	if raw[boot.System] == nil {
		t.Error("what the system recorded is not kept")
	}
}

// A machine that was not rebooted has no values, whatever answered.
func TestNotRebooted(t *testing.T) {
	tg := rebootTarget(t, "one", "one")
	_, err := New().Run(t.Context(), tg, nil)
	if !fault.Is(err, fault.Lab) || !strings.Contains(err.Error(), "was not rebooted") {
		t.Errorf("%v", err)
	}
	for text, ok := range map[string]bool{`{"before":"one","after":"one"}`: false, `{"before":"","after":"one"}`: false,
		`{"before":"one","after":"two"}`: true} {
		marks := `{"schema":"bakeoff/boot/v2","ready_ns":1,"left_ns":2,"gone_ns":3,"reboot":` + text + `}`
		if _, err := New().Parse(map[string][]byte{boot.Blob: []byte(marks)}, nil); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}
