package main

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"bakeoff/measure/workload/loops"
	"bakeoff/reach/agent"
)

// TestMain lets the scripts execute this very program as a command, with the
// signals, files and exit codes of a real one.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"bakeoff": main, "vmadm-of-this-test": fakeVmadm, agentHere: func() {
		os.Exit(agent.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, loops.All()))
	}})
}

// agentHere is an agent of this build, under a name by which no program finds it: a
// script sets BAKEOFF_AGENT to AGENT_HERE.
const agentHere = "agent-of-this-build"

// TestScripts runs the scenarios below testdata/script: what a person types,
// and what must come of it. They need no tool, and root only where they say so.
func TestScripts(t *testing.T) {
	images := imageServer(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			// Nothing of the machine's own state is seen or touched.
			e.Setenv("BAKEOFF_STATE", e.Cd+"/state")
			e.Setenv("BAKEOFF_CACHE", e.Cd+"/cache")
			e.Setenv("BAKEOFF_LOCK", e.Cd+"/lock")
			e.Setenv("NO_COLOR", "1")
			e.Setenv("IMAGE_SERVER", images)
			path, err := exec.LookPath(agentHere)
			e.Setenv("AGENT_HERE", path)
			return err
		},
		Condition: func(name string) (bool, error) {
			if name != "root" {
				return false, errors.New("there is no condition " + name)
			}
			return os.Getuid() == 0, nil
		},
		Cmds:          map[string]func(*testscript.TestScript, bool, []string){"code": code, "nights": nights},
		UpdateScripts: os.Getenv("UPDATE_SCRIPTS") != "",
	})
}

// code executes a command that must end with an exit code:
//
//	code 2 bakeoff plan --frobnicate
func code(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N command args...")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("code: %v", err)
	}
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("code: %v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
