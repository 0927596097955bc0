package preflight

import (
	"context"
	"testing"

	"bakeoff/lab/env"
	"bakeoff/lab/manifest"
	"bakeoff/lab/plan"
	"bakeoff/measure/execution"
	"bakeoff/measure/workload"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn"
)

type needy struct {
	*dice
	programs []string
}

func (n needy) Doc() workload.Doc {
	d := n.dice.Doc()
	d.Programs, d.Packages = n.programs, map[string][]string{"debian": {"a-package"}}
	return d
}

// present is a host that has the program sh and no other.
type present struct{ conn.Conn }

func (present) Exec(_ context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if cmd.Argv[len(cmd.Argv)-1] == "sh" {
		return conn.Exit{}, nil
	}
	return conn.Exit{Code: 127}, nil
}

// onlySh is the way to a host that has the program sh and no other.
func onlySh(string) (conn.Conn, error) { return present{}, nil }

// twoShelves is a plan with two contenders and one cell.
func twoShelves() (*plan.Plan, []driver.Driver) {
	p := &plan.Plan{Cells: []plan.Cell{{Cell: manifest.Cell{Name: "one", Workload: "dice"}}}}
	for _, name := range []string{"base", "slow"} {
		p.Contenders = append(p.Contenders, plan.Contender{Contender: manifest.Contender{Name: name, Driver: "shelf"}})
	}
	return p, []driver.Driver{&shelf{name: "shelf"}}
}

func TestProgramsTheHostLacks(t *testing.T) {
	p, drivers := twoShelves()
	lacks, err := ProgramsOn(t.Context(), p, drivers,
		[]execution.Runner{needy{&dice{}, []string{"sh", "no-such-server"}}}, onlySh)
	if err != nil {
		t.Fatal(err)
	}
	if len(lacks) != 1 || lacks[0].Program != "no-such-server" || lacks[0].Fix != "apt-get install "+
		"--no-install-recommends a-package" ||
		len(lacks[0].Contenders) != 2 || lacks[0].Cells[0] != "one" {
		t.Errorf("lacks %+v", lacks)
	}
	var none []driver.Driver
	if lacks, err = ProgramsOn(t.Context(), p, none, []execution.Runner{needy{&dice{}, []string{"x"}}},
		onlySh); err != nil || len(lacks) != 0 {
		t.Errorf("environments from images need nothing of the host: %+v %v", lacks, err)
	}
}

type distant struct{ *dice }

func (n distant) Doc() workload.Doc {
	d := n.dice.Doc()
	d.PeerPrograms, d.PeerPackages = []string{"no-such-generator"}, map[string][]string{"debian": {"a-generator"}}
	return d
}

// The other end is on the host, whatever the contenders are.
func TestProgramsTheOtherEndLacks(t *testing.T) {
	p, _ := twoShelves()
	lacks, err := ProgramsOn(t.Context(), p, nil, []execution.Runner{distant{&dice{}}}, onlySh)
	if err != nil || len(lacks) != 1 || lacks[0].Contenders[0] != LoadGenerator || lacks[0].Packages[0] != "a-generator" ||
		lacks[0].Host != env.LocalHost || len(lacks[0].loads) != 2 {
		t.Errorf("lacks %+v, %v", lacks, err)
	}
	p.Generator = "load"
	lacks, err = ProgramsOn(t.Context(), p, nil, []execution.Runner{distant{&dice{}}}, onlySh)
	if err != nil || len(lacks) != 1 || lacks[0].Host != "load" || len(lacks[0].loads) != 2 {
		t.Errorf("load from another host: lacks %+v, %v", lacks, err)
	}
}
