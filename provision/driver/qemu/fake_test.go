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
	"bakeoff/provision/guest/qemu"
	"bakeoff/reach/conn/local"
)

// fakeHost is this machine with a fake QEMU. Without a kernel its guest is a disk with
// FreeBSD, with one it is a NetBSD machine.
func fakeHost(dir string) *fake.Host {
	return fakeHostOf(dir, func(c *fake.Call) int {
		if slices.Contains(c.Argv, "-kernel") {
			return fakeNetBSD(c)
		}
		return fakeFreeBSD(c)
	})
}

// fakeHostOf is this machine with a fake QEMU that runs machine.
func fakeHostOf(dir string, machine fake.Program) *fake.Host {
	return &fake.Host{Dir: dir,
		Passed: []string{"uname", "id", "cat", "dd", "mkdir", "rmdir", "ls", "test", "stat", "sh", "kill", "ip"},
		Programs: map[string]fake.Program{"bakeoff-agent": fakeAgent(machine), qemu.Program: func(c *fake.Call) int {
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

// dialled is the network over which the agent of a guest dials.
const dialled = "user,id=channel,restrict=on,guestfwd=tcp:10.0.2.100:7311-chardev:channel"

// fakeNetBSD boots under the conditions under which the measured machine did. Its agent
// dials, and it has no ports of a virtio console.
func fakeNetBSD(c *fake.Call) int {
	value := func(flag, prefix string) string { return valueOf(c.Argv, flag, prefix) }
	bios, _ := os.ReadFile(value("-bios", ""))
	switch text := strings.Join(c.Argv, " "); {
	case !strings.Contains(value("-machine", ""), ",acpi=off"):
		return c.Failf("QEMU names no virtio device: %s", text)
	case !strings.Contains(string(bios), "SeaBIOS"):
		c.Printf("timecounter went backwards\n")
		<-c.Ctx.Done()
		return 0
	case strings.Contains(text, "-initrd") || strings.Contains(text, "virtserialport"):
		return c.Failf("this guest has no such devices: %s", text)
	case value("-append", "") == "root=panic":
		c.Printf("panic: a message of this test\n")
		return 0
	case value("-append", "") != "root=ld0a":
		return c.Failf("the command line is changed: %s", text)
	case value("-netdev", "") != dialled:
		return c.Failf("the agent finds nobody: %s", text)
	}
	return fakeGuestOf(c, "netbsd-microvm.txt")
}

// fakeFreeBSD is a whole disk on a PC, with the system's own boot loader.
func fakeFreeBSD(c *fake.Call) int {
	switch text := strings.Join(c.Argv, " "); {
	case !strings.HasPrefix(valueOf(c.Argv, "-machine", ""), qemu.Q35) || !strings.Contains(text, ",bootindex=0"):
		return c.Failf("nothing starts the boot loader: %s", text)
	case strings.Contains(text, "-append") || strings.Contains(text, "acpi=off"):
		return c.Failf("a boot loader takes no command line, and this one needs ACPI: %s", text)
	case valueOf(c.Argv, "-netdev", "") != dialled:
		return c.Failf("the agent finds nobody: %s", text)
	}
	return fakeGuestOf(c, "freebsd.txt")
}

// fakeGuestOf runs a machine that prints a console of testdata, until it is killed.
func fakeGuestOf(c *fake.Call, console string) int {
	value := func(flag, prefix string) string { return valueOf(c.Argv, flag, prefix) }
	text, err := os.ReadFile(filepath.Join("testdata", console))
	if err != nil {
		return c.Failf("%v", err)
	}
	_, file, _ := strings.Cut(value("-drive", ""), "file=")
	label := value("-name", "guest=")
	root, err := c.Host.Install(file, label)
	if err != nil {
		return c.Failf("%v", err)
	}
	go fakeMonitor(c.Ctx, first(value("-qmp", "unix:")))
	if valueOf(c.Argv, "-trace", "enable=") != "" {
		fmt.Fprintf(c.Stderr, "1@%d.000001:fw_cfg_add_bytes key 0x0000 'signature', 4 bytes\n", time.Now().Unix())
	}
	c.Printf("%s", text)
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
	if err := os.WriteFile(kernel, elfKernel(netbsdText), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/usr/share/seabios/bios-microvm.bin"); err != nil {
		t.Skip("needs SeaBIOS: apt-get install seabios")
	}
	return fakeHost(t.TempDir()), param.Values{optKernel: kernel, optDisk: disk, optAppend: "root=ld0a",
		optBootTimeout: "1m0s"}, agent
}

// fakeDisk returns the options for the fake disk with FreeBSD, and the agent.
func fakeDisk(t *testing.T) (h *fake.Host, options param.Values, agent string) {
	disk, agent := fake.Root(t)
	return fakeHost(t.TempDir()), param.Values{optMachine: qemu.Q35, optDisk: disk, optSystem: systemFreeBSD,
		optBootTimeout: "1m0s"}, agent
}

// suiteDial runs the contract of drivers over the channel that the guest dials.
func suiteDial(t *testing.T, name string, guest func(*testing.T) (*fake.Host, param.Values, string)) {
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
	h, options, agent := guest(t)
	t.Setenv("QEMU_TEST_FAKE", h.Dir)
	drivertest.Run(t, New(), drivertest.Options{Name: name, Host: h, Options: options, Agent: agent, NoVolume: true,
		Without: without})
}

func TestSuiteDial(t *testing.T) { suiteDial(t, "netbsd", fakeGuest) }

func TestSuiteDialFreeBSD(t *testing.T) { suiteDial(t, "freebsd", fakeDisk) }

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
	for name, want := range map[string]string{"channel": qemu.ChannelDial, "acpi": acpiOff, "firmware": qemu.SeaBIOS,
		"kernel.file": "NetBSD 10.99.12", "kernel.loaded": qemu.LoadsPVH, "boot": "kernel", "disk.format": formatRaw,
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

// The error of a guest that panics says so.
func TestDialledGuestPanics(t *testing.T) {
	h, options, agent := fakeGuest(t)
	options[optAppend] = "root=panic"
	spec := driver.Spec{Label: fmt.Sprintf("qp%d", os.Getpid()), Name: "netbsd", Dir: t.TempDir(), CPUs: 1,
		CPUSet: []int{0}, Memory: minMemory, Agent: agent, Options: options}
	_, err := New().Create(t.Context(), h, spec)
	if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "the guest's kernel panicked: a message "+
		"of this test") {
		t.Errorf("got %v", err)
	}
	left, err := New().Reap(t.Context(), local.Conn{}, driver.Leftover{Label: spec.Label, Dir: spec.Dir}, true)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// A guest that waits for somebody at its console does not use up the time for its boot: the error
// has what the console says.
func TestDialledGuestHangs(t *testing.T) {
	const why = "Mounting from ufs:/dev/vtbd0p2 failed with error 19."
	_, options, agent := fakeDisk(t)
	options[optBootTimeout] = "10m0s"
	h := fakeHostOf(t.TempDir(), func(c *fake.Call) int {
		l, err := net.Listen("unix", first(valueOf(c.Argv, "-chardev", "socket,id=channel,path=")))
		if err != nil {
			return c.Failf("%v", err)
		}
		defer l.Close() // nobody dials from the guest
		c.Printf("Trying to mount root from ufs:/dev/vtbd0p2 [rw]...\n%s\n\nmountroot> ", why)
		<-c.Ctx.Done()
		return 0
	})
	spec := driver.Spec{Label: fmt.Sprintf("qm%d", os.Getpid()), Name: "freebsd", Dir: t.TempDir(), CPUs: 1,
		CPUSet: []int{0}, Memory: minMemory, Agent: agent, Options: options}
	_, err := New().Create(t.Context(), h, spec)
	if !fault.Is(err, fault.Subject) || !strings.Contains(err.Error(), "the guest's kernel could not mount the "+
		"root: "+why) ||
		strings.Contains(err.Error(), "within") {
		t.Errorf("got %v", err)
	}
}
