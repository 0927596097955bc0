package runner

import (
	"context"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/measure/workload/lifecycle"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/provision/driver"
)

func TestMain(m *testing.M) { workloadtest.Main(m) }

// slow is an environment that takes its time to go.
type slow struct {
	driver.Instance
	closed int
}

func (s *slow) Close(ctx context.Context) error {
	s.closed++
	time.Sleep(2 * time.Millisecond)
	return s.Instance.Close(ctx)
}

func target(t *testing.T) (execution.Target, *slow) {
	tg := workloadtest.Local(t)
	s := &slow{Instance: tg.Subject}
	tg.Fresh = func(context.Context) (driver.Instance, []execution.Mark, error) {
		asked := time.Now()
		time.Sleep(3 * time.Millisecond)
		return s, []execution.Mark{{Name: "asked", At: asked}, {Name: "up", At: time.Now()}}, nil
	}
	return tg, s
}

func TestSuite(t *testing.T) {
	workloadtest.Run(t, New(), workloadtest.Options{Target: func(t *testing.T) execution.Target {
		tg, _ := target(t)
		return tg
	}})
}

func TestMomentsInOrder(t *testing.T) {
	tg, s := target(t)
	w := New()
	raw, err := w.Run(t.Context(), tg, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s.closed != 1 {
		t.Errorf("the environment was closed %d times", s.closed)
	}
	values, err := w.Parse(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	v := map[string]float64{}
	for _, x := range values {
		v[x.Metric] = x.Value
	}
	if v["create"] < 0.003 || v["first-process"] < v["create"] || v["destroy"] < 0.002 ||
		v["total"] < v["first-process"]+v["destroy"]-1e-9 {
		t.Errorf("values %v do not fit together", v)
	}
}

func TestAnEnvironmentThatDoesNotComeIsTheSubjects(t *testing.T) {
	tg, _ := target(t)
	tg.Fresh = func(context.Context) (driver.Instance, []execution.Mark, error) {
		return nil, nil, fault.New(fault.Subject, "panic")
	}
	if _, err := New().Run(t.Context(), tg, nil); !fault.Is(err, fault.Subject) {
		t.Errorf("error %v, want the subject's", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"schema":"bakeoff/lifecycle/v1","up_ns":1,"first_ns":2,"gone_ns":3}`))
	f.Add([]byte(`{"schema":"bakeoff/lifecycle/v1","up_ns":3,"first_ns":2,"gone_ns":1}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		values, err := New().Parse(workload.Raw{lifecycle.Blob: b}, nil)
		for _, v := range values {
			if err != nil || !(v.Value >= 0) {
				t.Errorf("%q gave %v, %v", b, values, err)
			}
		}
	})
}
