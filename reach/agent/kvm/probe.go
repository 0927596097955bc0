// Package kvm checks whether KVM runs a guest on this machine.
package kvm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"bakeoff/base/fault"
	"bakeoff/reach/agent/command"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

// kvmDeadline is when an unfinished probe is killed: an unsuitable backend
// would step through the guest for hours.
const kvmDeadline = 2 * time.Second

// Run is `kvm-probe [--fresh]`; `kvm-probe --here` is its child, which
// may hang.
func Run(c command.Call) int {
	f, _ := c.Flags("kvm-probe")
	here := f.Bool("here", false, "probe in this process, without a deadline")
	fresh := f.Bool("fresh", false, "ignore the cached result of this boot")
	if err := f.Parse(c.Args); err != nil {
		return wire.ExitInvalid
	}
	if *here {
		return c.Print(runGuest())
	}
	self, err := os.Executable()
	if err != nil {
		return c.Fail(fault.Op("kvm-probe", err))
	}
	boot := bootID()
	cache := ""
	if dir, err := os.UserCacheDir(); err == nil && boot != "" {
		cache = filepath.Join(dir, "bakeoff", "kvm-probe.json")
	}
	old, known := cachedProbe(cache, boot)
	known = known && !*fresh
	if known && (old.Works || old.TimedOut) {
		return c.Print(old)
	}
	// Repeat a probe that failed at once: a module may have been loaded
	// since.
	r := Probe(context.Background(), self)
	r.BootID, r.TSCKHz = boot, old.TSCKHz
	if !known {
		r.TSCKHz = tscKHz()
	}
	if cache != "" {
		keepProbe(cache, r) // ignore errors: the next call probes again
	}
	return c.Print(r)
}

// Probe checks whether /dev/kvm really runs a guest on this processor, by
// running one. agent is the path of this program on this machine; the guest
// runs in a child process, which is killed after two seconds.
func Probe(ctx context.Context, agent string) wire.KVMResult {
	ctx, cancel := context.WithTimeout(ctx, kvmDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, agent, "kvm-probe", "--here")
	var out bytes.Buffer
	cmd.Stdout = &out
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		var spent time.Duration
		if p := cmd.ProcessState; p != nil {
			spent = p.UserTime() + p.SystemTime()
		}
		return wire.KVMResult{Probed: true, TimedOut: spent >= kvmDeadline/2,
			Reason: fmt.Sprintf("a tiny guest did not end within %v (CPU time %v)", kvmDeadline, spent.Round(time.Millisecond))}
	}
	if err != nil {
		return wire.KVMResult{Probed: true, Reason: "the probe failed: " + err.Error()}
	}
	var r wire.KVMResult
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		return wire.KVMResult{Reason: "invalid output of the probe: " + err.Error()}
	}
	return r
}

// bootID identifies the current boot; "" if unknown.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func cachedProbe(path, boot string) (wire.KVMResult, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return wire.KVMResult{}, false
	}
	var r wire.KVMResult
	if json.Unmarshal(text, &r) != nil || r.BootID != boot || r.BootID == "" {
		return wire.KVMResult{}, false
	}
	// The permissions of the device may have changed since.
	if r.Works {
		f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
		if err != nil {
			return wire.KVMResult{}, false
		}
		f.Close()
	}
	return r, true
}

func keepProbe(path string, r wire.KVMResult) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return local.Conn{}.Push(context.Background(), path, 0o600, bytes.NewReader(text))
}
