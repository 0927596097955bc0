package preflight

import (
	"context"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

// shelf is a driver that creates nothing: the checks must not need it to.
type shelf struct{ name string }

func (s *shelf) Doc() driver.Doc {
	return driver.Doc{Name: s.name, Summary: "in memory", Hosts: []string{"linux"}}
}

func (s *shelf) Check(context.Context, conn.Conn, param.Values) driver.Availability {
	if s.name == "absent" {
		return driver.Availability{Reason: "absent is not installed", Fix: "apt-get install absent"}
	}
	return driver.Availability{OK: true}
}

func (s *shelf) Create(context.Context, conn.Conn, driver.Spec) (driver.Instance, error) {
	return nil, fault.New(fault.Lab, "a check created an environment")
}

func (s *shelf) Reap(context.Context, conn.Conn, driver.Leftover, bool) ([]string, error) {
	return nil, fault.New(fault.Lab, "a check removed an environment")
}

// dice is a workload that cannot run: the checks must not need it to.
type dice struct{}

func (d *dice) Doc() workload.Doc {
	return workload.Doc{Name: "dice", Summary: "drawn numbers", Parser: 1, State: "carried", Cache: "warm",
		Metrics: []sample.Metric{{Name: "throughput", Unit: "op/s", Better: sample.Higher,
			Primary: true, Scale: sample.Ratio}},
		Params: []param.Spec{{Name: "time", Kind: param.Duration, Default: "1ms", Doc: "none"}}}
}

func (d *dice) Prepare(context.Context, execution.Target, param.Values) error { return errRun }

func (d *dice) Reset(context.Context, execution.Target, param.Values) error { return errRun }

func (d *dice) Run(context.Context, execution.Target, param.Values) (workload.Raw, error) {
	return nil, errRun
}

func (d *dice) Parse(workload.Raw, param.Values) ([]sample.Value, error) { return nil, errRun }

var errRun = fault.New(fault.Lab, "a check ran a workload")
