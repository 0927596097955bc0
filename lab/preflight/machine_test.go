package preflight

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
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
		"":                                      nil,
		"this would stop the contender c there": func(p *plan.Plan) { p.Contenders[2].Host = "box" },
		"this would stop cell more (workload dice)": func(p *plan.Plan) {
			p.Cells = append(p.Cells, plan.Cell{Cell: manifest.Cell{Name: "more", Workload: "dice"}})
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
	// Without the workload boot nothing is rebooted, and machines may do what others do.
	p := rebootPlan(func(p *plan.Plan) {
		p.Cells[0].Workload, p.Generator, p.Contenders[2].Host = "dice", "local", "box"
	})
	if err := errors.Join(CheckMachines(p, drivers, workloads)...); err != nil {
		t.Error(err)
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
		Site: Site{Drivers: []driver.Driver{&shelf{name: "shelf"}, d}, Workloads: []execution.Runner{boot.New()},
			Way: func(name string) (conn.Conn, error) { return boxed{boot: boots[name]}, nil }}}
	got := v.rebootNotes(func(string) bool { return true })
	want := "a run reboots box (root@box.example) 6 times, and at most 12 times if blocks are void: each reboot " +
		"stops everything that runs there"
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

// loaded is a workload with a load generator.
type loaded struct{ *dice }

func (l loaded) Doc() workload.Doc {
	d := l.dice.Doc()
	d.Name, d.Peer = "loaded", true
	return d
}

// on is a way to a machine with a system, which ssh reaches directly or not.
type on struct {
	local.Conn
	goos   string
	direct error
}

func (o on) Machine() channel.Machine { return channel.Machine{GOOS: o.goos} }

func (o on) Direct(context.Context) (netip.AddrPort, error) {
	return netip.MustParseAddrPort("192.0.2.7:22"), o.direct
}

// Load reaches an environment over the experiment's network, which only Linux has, and a
// bare machine at an address that must be known if the load comes from another host.
func TestCheckNetwork(t *testing.T) {
	jump := fault.New(fault.Unsupported, "it is behind a jump host")
	for _, tt := range []struct {
		name      string
		workload  string
		driver    driver.Driver
		host      conn.Conn
		generator string
		address   string
		says      string // "": accepted
	}{
		{"no load", "dice", &shelf{name: "shelf"}, on{goos: "freebsd"}, "", "", ""},
		{"Linux", "loaded", &shelf{name: "shelf"}, on{goos: "linux"}, "", "", ""},
		{"FreeBSD", "loaded", &shelf{name: "shelf"}, on{goos: "freebsd"}, "", "", "on Linux only"},
		{"bare FreeBSD", "loaded", whole{&shelf{name: "whole"}}, on{goos: "freebsd"}, "", "", ""},
		{"load from elsewhere", "loaded", whole{&shelf{name: "whole"}}, on{goos: "freebsd"}, "client", "", ""},
		{"over a detour", "loaded", whole{&shelf{name: "whole"}}, on{direct: jump}, "client", "", "jump host"},
		{"with an address", "loaded", whole{&shelf{name: "whole"}}, on{direct: jump}, "client", "192.0.2.8", ""},
		{"this machine", "loaded", whole{&shelf{name: "whole"}}, local.Conn{}, "client", "", "the address at which"},
	} {
		v := inspector{plan: &plan.Plan{Generator: tt.generator,
			Hosts: map[string]manifest.Host{"box": {Address: tt.address}},
			Cells: []plan.Cell{{Cell: manifest.Cell{Name: "web", Workload: tt.workload}}}},
			Site: Site{Workloads: []execution.Runner{&dice{}, loaded{&dice{}}},
				Way: func(string) (conn.Conn, error) { return local.Conn{}, nil }}}
		c := plan.Contender{Contender: manifest.Contender{Name: "a", Host: "box"}}
		err := v.checkNetwork(t.Context(), tt.driver, tt.host, c)
		if (err == nil) != (tt.says == "") ||
			err != nil && (!strings.Contains(err.Error(), tt.says) || fault.Fix(err) == "") {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
	}
}

// A plan that compares the two drivers of a bare machine says how they differ.
func TestBareNotes(t *testing.T) {
	of := func(name, driver string) plan.Contender {
		return plan.Contender{Contender: manifest.Contender{Name: name, Driver: driver}}
	}
	v := inspector{plan: &plan.Plan{Contenders: []plan.Contender{of("a", "host"), of("b", "machine")}}}
	if got := v.bareNotes(func(string) bool { return true }); len(got) != 1 ||
		!strings.HasPrefix(got[0], "a (driver host) has control groups") {
		t.Errorf("%q", got)
	}
	if got := v.bareNotes(func(name string) bool { return name == "a" }); len(got) != 0 {
		t.Errorf("with one of them: %q", got)
	}
}
