// Package boot measures from outside how an environment comes up: when its firmware,
// its kernel and its first process start, when it is ready, when its service answers,
// and how long its removal takes. Nothing has to run in it, so it needs no agent.
package boot

import (
	"time"

	"bakeoff/base/bootmodel"
	"bakeoff/base/param"
	"bakeoff/base/sample"
	"bakeoff/base/unit"
	"bakeoff/measure/workload"
)

// New returns the workload.
func New() workload.Parser { return Workload{} }

// Workload describes the workload and reads its trials.
type Workload struct{}

// The parameters.
const (
	ParamAnswer = "answer"
	ParamArgv   = "argv"
	ParamRecord = "record"
)

// The metrics.
const (
	Ready     = "ready"
	Firmware  = "firmware"
	Kernel    = "kernel"
	Userland  = "userland"
	Service   = "service"
	BootReady = "boot-ready"
	Remove    = "remove"
	Shutdown  = "shutdown"
	// Instructions is the metric of guests on the instruction clock.
	Instructions = "instructions"
)

// phases are the metrics that are the time between two marks.
var phases = []struct{ metric, from, to string }{
	{Ready, MarkAsked, bootmodel.MarkReady},
	{Firmware, bootmodel.MarkVCPU, bootmodel.MarkFirmware},
	{Kernel, bootmodel.MarkKernel, bootmodel.MarkUserland},
	{Userland, bootmodel.MarkUserland, bootmodel.MarkReady},
	{Service, bootmodel.MarkUserland, bootmodel.MarkService},
	{BootReady, MarkAsked, bootmodel.MarkService},
	{Shutdown, MarkAsked, bootmodel.MarkDown},
}

// Doc describes the workload.
func (Workload) Doc() workload.Doc {
	ready := sample.LowerRatio(Ready, "s", "from the request for an environment until the environment is ready: its "+
		"agent answers, or the event that the driver's option ready names was seen from outside")
	ready.Primary = true
	instructions := sample.LowerRatio(Instructions, unit.Instruction, "from the first instruction of the machine until "+
		"the boot has ended, on the instruction clock (option clock of the driver qemu)")
	instructions.Exact = true
	return workload.Doc{
		Name: "boot", Parser: 1,
		Summary: "How long the firmware, the kernel and the first processes of an environment take until the " +
			"environment is ready and its service answers. bakeoff measures the time from outside, so the " +
			"environment needs no agent",
		Metrics: []sample.Metric{
			ready,
			sample.LowerRatio(Firmware, "s", "from the first instruction of the machine until the firmware gives "+
				"control to the kernel; absent without firmware, or if the hypervisor does not show this time"),
			sample.LowerRatio(Kernel, "s", "from the first instruction of the kernel to the first instruction of its "+
				"first process; absent if the environment has no kernel of its own, or if the agent is not its first "+
				"process"),
			sample.LowerRatio(Userland, "s", "from the first instruction of the first process until the environment is ready"),
			sample.LowerRatio(Service, "s", "from the first instruction of the first process until the service "+
				"answers a request from outside, as defined by the parameter answer or by the driver's option ready"),
			sample.LowerRatio(BootReady, "s", "from the request for an environment until the environment's service "+
				"answers a request from outside"),
			sample.LowerRatio(Remove, "s", "from the request to remove the environment until it is removed completely"),
			sample.LowerRatio(Shutdown, "s", "from the command that reboots a machine until the system that ran "+
				"before no longer answers; only with the driver machine, because other drivers create a new "+
				"environment instead of rebooting a machine"),
			instructions,
		},
		Params: []param.Spec{
			{Name: ParamAnswer, Kind: param.Text, Doc: "Answer to a request from outside that shows that the " +
				"service of the environment is ready: tcp:PORT (the service accepts a connection), http:PORT/PATH " +
				"(a GET of /PATH has the status 200) or ssh:PORT (the service sends the banner of SSH)."},
			{Name: ParamArgv, Kind: param.List, Doc: "Command of the service, as [program, argument], which bakeoff " +
				"starts when the environment is ready. Without argv, the environment starts the service itself."},
			{Name: ParamRecord, Kind: param.Bool, Default: "false", Doc: "Whether each trial keeps what the kernel and " +
				"the system in the environment recorded about the boot, for `bakeoff boot`."},
		},
		State: workload.Fresh, Cache: "warm", Outside: true, Watch: true,
		PeerFor: func(p param.Values) bool { return p.Text(ParamAnswer) != "" },
		Time:    func(param.Values) time.Duration { return 100 * time.Millisecond }, // without the environment itself
		Source: []string{"bakeoff takes the times on the monotonic clock of its own machine",
			"QEMU's trace of fw_cfg: https://www.qemu.org/docs/master/specs/fw_cfg.html",
			"bakeoff compares the clock of the guest with its own clock when the environment is ready"},
	}
}

// Parse reads the samples of a trial.
func (Workload) Parse(raw workload.Raw, _ param.Values) ([]sample.Value, error) {
	t, err := readTrial(raw)
	if err != nil {
		return nil, err
	}
	var out []sample.Value
	for _, p := range phases {
		if seconds, why := t.between(p.from, p.to); why == "" {
			out = append(out, sample.Value{Metric: p.metric, Unit: "s", Value: seconds})
		}
	}
	out = append(out, sample.Value{Metric: Remove, Unit: "s", Value: float64(t.marks.GoneNS-t.marks.LeftNS) / 1e9})
	if n := t.marks.instructions(); n > 0 {
		out = append(out, sample.Value{Metric: Instructions, Unit: unit.Instruction, Value: float64(n)})
	}
	return out, nil
}

// Absent implements workload.Absenter.
func (Workload) Absent(raw workload.Raw, _ param.Values) map[string]string {
	t, err := readTrial(raw)
	if err != nil {
		return nil
	}
	out := map[string]string{}
	if t.marks.instructions() == 0 {
		out[Instructions] = "the environment is not on the instruction clock: set clock: instructions of the driver qemu"
	}
	for _, p := range phases {
		if _, why := t.between(p.from, p.to); why != "" {
			out[p.metric] = why
		}
	}
	return out
}
