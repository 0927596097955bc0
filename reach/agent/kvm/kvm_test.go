package kvm

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"bakeoff/reach/wire"
)

// script writes an executable that stands for the agent's child.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKVMProbeOfAHangingGuest(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the probe's deadline")
	}
	// One that never ran may have waited for a CPU: the answer is not for the
	// whole boot.
	r := Probe(t.Context(), script(t, "exec sleep 60"))
	if r.Works || !r.Probed || r.TimedOut || !strings.Contains(r.Reason, "did not end") {
		t.Errorf("one that sleeps: %+v", r)
	}
	// A busy machine may not give it the half of one: then it goes before all
	// others, where it may.
	spin := "while :; do :; done"
	for try := range 5 {
		r = Probe(t.Context(), script(t, spin))
		if r.Works || !r.Probed || !strings.Contains(r.Reason, "did not end") {
			t.Fatalf("one that spins: %+v", r)
		}
		if r.TimedOut {
			return
		}
		t.Logf("try %d: %s", try, r.Reason)
		spin = "chrt -f 1 true && exec chrt -f 1 sh -c 'while :; do :; done'; while :; do :; done"
	}
	t.Errorf("one that spins: %+v", r)
}

func TestKVMProbeTakesTheChildsWord(t *testing.T) {
	if r := Probe(t.Context(), script(t, `echo '{"probed":true,"works":true}'`)); !r.Works {
		t.Errorf("got %+v", r)
	}
	for _, text := range []string{"exit 1", "kill -SEGV $$", "echo yes", ""} {
		if r := Probe(t.Context(), script(t, text)); r.Works || r.Reason == "" {
			t.Errorf("%q: got %+v", text, r)
		}
	}
	if r := Probe(context.Background(), "/no/such/agent"); r.Works || r.Reason == "" {
		t.Errorf("got %+v", r)
	}
}

// If the answer is no, it has a reason.
func TestProbeHere(t *testing.T) {
	r := runGuest()
	if r.Works == (r.Reason != "") {
		t.Errorf("got %+v", r)
	}
	if r.Works && !r.Probed {
		t.Error("it works without having been probed")
	}
}

func TestProbeIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "kvm-probe.json")
	want := wire.KVMResult{Probed: true, Reason: "x", TSCKHz: 2000000, BootID: "this"}
	if err := keepProbe(path, want); err != nil {
		t.Fatal(err)
	}
	if got, ok := cachedProbe(path, "this"); !ok || got != want {
		t.Errorf("got %+v, %v", got, ok)
	}
	if _, ok := cachedProbe(path, "another"); ok {
		t.Error("another boot's answer was taken")
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := cachedProbe(path, "this"); ok {
		t.Error("half an answer was taken")
	}
}

func TestTSC(t *testing.T) {
	khz := tscKHz()
	if runtime.GOARCH != "amd64" {
		if khz != 0 {
			t.Errorf("%s has a counter of %d kHz", runtime.GOARCH, khz)
		}
		return
	}
	if khz < 500_000 || khz > 10_000_000 {
		t.Errorf("%d kHz is not the frequency of a time stamp counter", khz)
	}
}
