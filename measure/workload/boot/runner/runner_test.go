package runner

import (
	"context"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/boot"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

func TestMain(m *testing.M) { workloadtest.Main(m) }

// mute is an environment in which nothing can be started.
type mute struct {
	driver.Instance
	closed int
}

func (*mute) Exec(context.Context, conn.Cmd) (conn.Exit, error) {
	return conn.Exit{}, fault.New(fault.Unsupported, "it has no agent")
}

func (m *mute) Close(ctx context.Context) error {
	m.closed++
	time.Sleep(2 * time.Millisecond)
	return m.Instance.Close(ctx)
}

func target(t *testing.T) (execution.Target, *mute) {
	tg := workloadtest.Local(t)
	m := &mute{Instance: tg.Subject}
	tg.Fresh = func(context.Context) (driver.Instance, []execution.Mark, error) {
		asked := time.Now()
		time.Sleep(3 * time.Millisecond)
		return m, []execution.Mark{{Name: "asked", At: asked}, {Name: "up", At: time.Now()},
			{Name: "userland", Count: 648_366_412}, {Name: "ready", Count: 700_000_001}}, nil
	}
	return tg, m
}

func TestSuite(t *testing.T) {
	workloadtest.Run(t, New(), workloadtest.Options{Target: func(t *testing.T) execution.Target {
		tg, _ := target(t)
		return tg
	}})
}

func TestNothingIsStartedInside(t *testing.T) {
	tg, m := target(t)
	raw, err := New().Run(t.Context(), tg, nil)
	if err != nil {
		t.Fatal(err)
	}
	values, err := New().Parse(raw, nil)
	if err != nil || m.closed != 1 || len(values) != 3 {
		t.Fatalf("%v, %v; closed %d times", values, err, m.closed)
	}
	if values[0].Metric != "ready" || values[0].Value < 0.003 || values[1].Metric != "remove" || values[1].Value < 0.002 {
		t.Errorf("got %v", values)
	}
	if got := values[2]; got.Metric != boot.Instructions || got.Value != 700_000_001 {
		t.Errorf("the end of the boot is %v", got)
	}
	tg.Fresh = func(context.Context) (driver.Instance, []execution.Mark, error) {
		return nil, nil, fault.New(fault.Subject, "panic")
	}
	if _, err := New().Run(t.Context(), tg, nil); !fault.Is(err, fault.Subject) {
		t.Errorf("error %v, want the subject's", err)
	}
	if err := New().Prepare(t.Context(), execution.Target{}, nil); !fault.Is(err, fault.Unsupported) {
		t.Errorf("a target without environments: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"schema":"bakeoff/boot/v1","ready_ns":1,"left_ns":2,"gone_ns":3}`))
	f.Add([]byte(`{"schema":"bakeoff/boot/v1","ready_ns":3,"left_ns":2,"gone_ns":1}`))
	f.Add([]byte(`{"schema":"bakeoff/boot/v1","ready_ns":1,"left_ns":2,"gone_ns":3,"counts":[{"name":"a","at":5}]}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		values, err := New().Parse(workload.Raw{boot.Blob: b}, nil)
		for _, v := range values {
			if err != nil || !(v.Value >= 0) {
				t.Errorf("%q gave %v, %v", b, values, err)
			}
		}
	})
}
