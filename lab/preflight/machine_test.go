package preflight

import (
	"context"
	"errors"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	boot "bakeoff/measure/workload/boot/runner"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/conn/local"
)

// whole is a driver whose environments are whole machines.
type whole struct{ *shelf }

func (w whole) Doc() driver.Doc {
	d := w.shelf.Doc()
	d.Whole = true
	return d
}

// rebootPlan is a plan in which a machine is the baseline, with its twin.
func rebootPlan(change func(*plan.Plan)) *plan.Plan {
	of := func(name, driver, host string) plan.Contender {
		return plan.Contender{Contender: manifest.Contender{Name: name, Driver: driver, Host: host}}
	}
	twin := of("a~twin", "whole", "box")
	twin.TwinOf = "a"
	p := &plan.Plan{
		Contenders: []plan.Contender{of("a", "whole", "box"), of("b", "whole", "box"), of("c", "shelf", ""), twin},
		Cells:      []plan.Cell{{Cell: manifest.Cell{Name: "boot", Workload: "boot"}}},
		Hosts:      map[string]manifest.Host{"box": {SSH: "root@box.example"}}}
	order := []string{"a", "c", "b", "a~twin"}
	for i := range 4 {
		p.Blocks = append(p.Blocks, plan.Block{Index: i, Spare: i > 1, Create: order,
			Visits: []plan.Visit{{Cell: "boot", Order: order}}})
	}
	if change != nil {
		change(p)
	}
	return p
}

// What a reboot would end, or could not be measured, is refused with the contender.
func TestCheckMachines(t *testing.T) {
	drivers := []driver.Driver{&shelf{name: "shelf"}, whole{&shelf{name: "whole"}}}
	workloads := []execution.Runner{boot.New(), &dice{}}
	for says, change := range map[string]func(*plan.Plan){
		"":                           nil,
		"ends the contender c there": func(p *plan.Plan) { p.Contenders[2].Host = "box" },
		"cell boot has the workload dice": func(p *plan.Plan) {
			p.Cells[0].Workload = "dice"
		},
		"no load can come from": func(p *plan.Plan) { p.Generator = "local" },
		"switched between systems": func(p *plan.Plan) {
			p.Hosts["box"] = manifest.Host{Switch: map[string][]string{"debian": {"x"}}}
		},
	} {
		err := errors.Join(CheckMachines(rebootPlan(change), drivers, workloads)...)
		if (err == nil) != (says == "") {
			t.Errorf("%v, want %q", err, says)
		}
		if err != nil && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), says) ||
			!strings.HasPrefix(err.Error(), "contender a: ") || strings.Contains(err.Error(), "twin")) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// boxed is a way to a machine in a boot.
type boxed struct {
	local.Conn
	boot string
}

func (b boxed) Machine() channel.Machine { return channel.Machine{Boot: b.boot} }

// plan says how often a machine is rebooted, its twin included, and refuses a machine that
// has two names.
func TestLookAtReboots(t *testing.T) {
	d := whole{&shelf{name: "whole"}}
	boots := map[string]string{"box": "1", "other": "2"}
	v := inspector{plan: rebootPlan(func(p *plan.Plan) { p.Hosts["other"] = manifest.Host{SSH: "other"} }),
		Site: Site{Drivers: []driver.Driver{&shelf{name: "shelf"}, d},
			Way: func(name string) (conn.Conn, error) { return boxed{boot: boots[name]}, nil }}}
	got := v.rebootNotes(func(string) bool { return true })
	want := "a run reboots box (root@box.example) 6 times, and at most 12 times if blocks are void: everything that " +
		"runs there ends each time"
	if len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := v.rebootNotes(func(name string) bool { return name == "c" }); len(got) != 0 {
		t.Errorf("machines that cannot run are rebooted: %q", got)
	}
	c := v.plan.Contenders[0]
	if err := v.checkSameMachine(context.Background(), d, boxed{boot: "1"}, c); err != nil {
		t.Error(err)
	}
	boots["other"] = "1"
	if err := v.checkSameMachine(context.Background(), d, boxed{boot: "1"}, c); !fault.Is(err, fault.Unsupported) {
		t.Errorf("the same machine twice: %v", err)
	}
}
