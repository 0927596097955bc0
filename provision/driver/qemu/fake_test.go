//go:build linux

package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/drivertest"
	"bakeoff/provision/driver/fake"
	"bakeoff/provision/guest"
	"bakeoff/reach/conn/local"
)

// fakeHost is this machine with a fake QEMU, whose guest is a NetBSD machine: it boots
// under the conditions under which the measured one did, its agent dials, and it has no
// ports of a virtio console.
func fakeHost(dir string) *fake.Host { return fakeHostOf(dir, fakeMachine) }

// fakeHostOf is this machine with a fake QEMU that runs machine.
func fakeHostOf(dir string, machine fake.Program) *fake.Host {
	return &fake.Host{Dir: dir,
		Passed: []string{"uname", "id", "cat", "dd", "mkdir", "rmdir", "ls", "test", "stat", "sh", "kill", "ip"},
		Programs: map[string]fake.Program{"bakeoff-agent": fakeAgent(machine), defaultProgram: func(c *fake.Call) int {
			switch {
			case slices.Contains(c.Argv, "-version"):
				c.Printf("QEMU emulator version 7.2.22 (a fake)\n")
				return 0
			case slices.Contains(c.Argv, "help"):
				c.Printf("Supported machines are:\nmicrovm   microvm (i386)\nq35   Standard PC\n")
				return 0
			}
			return c.Failf("not started by the agent: %q", c.Argv)
		}}}
}

// fakeAgent is the agent on the host.
func fakeAgent(machine fake.Program) fake.Program {
	return func(c *fake.Call) int {
		switch c.Argv[1] {
		case "kvm-probe":
			c.Printf(`{"probed":true,"reason":"a fake"}` + "\n")
			return 0
		case "enter":
			inner := *c
			inner.Argv = c.Argv[slices.Index(c.Argv, "--")+1:]
			return machine(&inner)
		}
		return c.Failf("unknown command %s", c.Argv[1])
	}
}

// valueOf is what follows prefix in the argument of a flag; "" if there is none.
func valueOf(argv []string, flag, prefix string) string {
	for i, a := range argv[:len(argv)-1] {
		if a == flag && strings.HasPrefix(argv[i+1], prefix) {
			return strings.TrimPrefix(argv[i+1], prefix)
		}
	}
	return ""
}

// first is the part of an argument before its first comma.
func first(arg string) string {
	name, _, _ := strings.Cut(arg, ",")
	return name
}

// fakeMachine runs a machine until it is killed.
func fakeMachine(c *fake.Call) int {
	value := func(flag, prefix string) string { return valueOf(c.Argv, flag, prefix) }
	bios, _ := os.ReadFile(value("-bios", ""))
	_, file, _ := strings.Cut(value("-drive", ""), "file=")
	switch text := strings.Join(c.Argv, " "); {
	case !strings.Contains(value("-machine", ""), ",acpi=off"):
		c.Printf("panic: a message of this test\n") // QEMU names no virtio device
		return 0
	case !strings.Contains(string(bios), "SeaBIOS"):
		c.Printf("timecounter went backwards\n")
		<-c.Ctx.Done()
		return 0
	case strings.Contains(text, "-initrd") || strings.Contains(text, "virtserialport"):
		return c.Failf("this guest has no such devices: %s", text)
	case value("-append", "") != "root=ld0a":
		return c.Failf("the command line is changed: %s", text)
	case value("-netdev", "") != "user,id=channel,restrict=on,guestfwd=tcp:10.0.2.100:7311-chardev:channel":
		return c.Failf("the agent finds nobody: %s", text)
	}
	label := value("-name", "guest=")
	root, err := c.Host.Install(file, label)
	if err != nil {
		return c.Failf("%v", err)
	}
	go fakeMonitor(c.Ctx, first(value("-qmp", "unix:")))
	if valueOf(c.Argv, "-trace", "enable=") != "" {
		fmt.Fprintf(c.Stderr, "1@%d.000001:fw_cfg_add_bytes key 0x0000 'signature', 4 bytes\n", time.Now().Unix())
	}
	c.Printf("NetBSD 10.99 (MICROVM)\n")
	c.Serve(c.Ctx, first(value("-chardev", "socket,id=channel,path=")), fake.Place{Label: label, Root: root,
		CPUSet: []int{0}}, nil)
	fake.Empty(label)
	os.RemoveAll(root)
	return 0
}

// fakeMonitor answers what the driver asks QEMU.
func fakeMonitor(ctx context.Context, socket string) {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			fmt.Fprintln(conn, `{"QMP":{"version":{"qemu":{"major":7,"minor":2,"micro":22},"package":"fake"}}}`)
			for in := bufio.NewScanner(conn); in.Scan(); {
				var q struct {
					Execute string
					ID      int
				}
				if json.Unmarshal(in.Bytes(), &q) != nil {
					return
				}
				answer := `{}`
				if q.Execute == "query-kvm" {
					answer = `{"enabled":false,"present":false}`
				}
				fmt.Fprintf(conn, `{"return":%s,"id":%d}`+"\n", answer, q.ID)
			}
		}()
	}
}

// fakeGuest returns the options for the fake NetBSD machine, and the agent.
func fakeGuest(t *testing.T) (h *fake.Host, options param.Values, agent string) {
	disk, agent := fake.Root(t)
	kernel := filepath.Join(t.TempDir(), "netbsd")
	if err := os.WriteFile(kernel, elfKernel(true, 18, netbsdText), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/usr/share/seabios/bios-microvm.bin"); err != nil {
		t.Skip("needs SeaBIOS: apt-get install seabios")
	}
	return fakeHost(t.TempDir()), param.Values{optKernel: kernel, optDisk: disk, optAppend: "root=ld0a",
		optBootTimeout: "1m0s"}, agent
}

// TestSuiteDial is the contract of drivers over the channel that the guest dials.
func TestSuiteDial(t *testing.T) {
	without := map[string]string{
		"tuning":  "the fake's guest shares the kernel of this machine: TestGuestIsSetUp",
		"network": "the fake's guest shares the kernel of this machine: TestGuestIsSetUp",
		"volumes": "the fake's guest shares the kernel of this machine: TestGuestIsSetUp",
		"limits":  "the fake's guest has no memory of its own",
	}
	if drivertest.Victim() {
		drivertest.Run(t, New(), drivertest.Options{Host: fakeHost(os.Getenv("QEMU_TEST_FAKE"))})
		return
	}
	h, options, agent := fakeGuest(t)
	t.Setenv("QEMU_TEST_FAKE", h.Dir)
	drivertest.Run(t, New(), drivertest.Options{Name: "dial", Host: h, Options: options, Agent: agent, NoVolume: true,
		Without: without})
}

func TestDialledGuestSaysWhatItIs(t *testing.T) {
	h, options, agent := fakeGuest(t)
	spec := driver.Spec{Label: fmt.Sprintf("qf%d", os.Getpid()), Name: "netbsd", Dir: t.TempDir(), CPUs: 1,
		CPUSet: []int{0}, Memory: minMemory, Agent: agent, Options: options, Memo: &driver.Memo{}}
	in, err := New().Create(t.Context(), h, spec)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close(context.Background())
	facts := in.Info().Facts
	for name, want := range map[string]string{"channel": channelDial, "acpi": acpiOff, "firmware": seaBIOS,
		"kernel.file": "NetBSD 10.99.12", "kernel.loaded": loadsPVH, "boot": "kernel", "disk.format": formatRaw,
		"root": "virtio-blk, the disk of the lab file, changes in a temporary file"} {
		if facts[name] != want {
			t.Errorf("fact %s is %q, want %q", name, facts[name], want)
		}
	}
	if len(facts["disk.sha256"]) != 64 || len(facts["kernel.sha256"]) != 64 {
		t.Errorf("the files have no digests: %v", facts)
	}
	if !in.Info().OwnKernel {
		t.Error("the guest has no kernel of its own")
	}
}

// Without ACPI off, the guest panics, and the error says so.
func TestDialledGuestPanics(t *testing.T) {
	h, options, agent := fakeGuest(t)
	options[optACPI] = acpiOn
	spec := driver.Spec{Label: fmt.Sprintf("qp%d", os.Getpid()), Name: "netbsd", Dir: t.TempDir(), CPUs: 1,
		CPUSet: []int{0}, Memory: minMemory, Agent: agent, Options: options}
	_, err := New().Create(t.Context(), h, spec)
	if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "its kernel panicked: a message of this test") {
		t.Errorf("got %v", err)
	}
	left, err := New().Reap(t.Context(), local.Conn{}, driver.Leftover{Label: spec.Label, Dir: spec.Dir}, true)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func TestDiagnoseOtherSystems(t *testing.T) {
	for text, want := range map[string]string{
		"[   1.0000] panic: a message of this test\n[   1.0000] cpu0: Begin traceback...\n": "its kernel panicked: " +
			"a message of this test",
		"panic: another message\ncpuid = 0\n": "its kernel panicked: another message",
		"words about panic: nothing\n":        "",
		"timecounter went backwards\n":        "its clock went backwards: ",
	} {
		if got := guest.Diagnose([]byte(text)); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q: %q", text, got)
		}
	}
}
