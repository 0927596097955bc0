//go:build linux

package qemu

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/base/unit"
	"bakeoff/provision/driver"
	"bakeoff/provision/driver/fake"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/netns"
	"bakeoff/provision/volume"
	"bakeoff/reach/agent/serve"
	"bakeoff/reach/conn/channel"
	"bakeoff/reach/conn/local"
	"bakeoff/reach/wire"
)

// recorder is the agent in a guest of a BSD. It sets nothing up, but refuses what an
// agent on that system refuses.
type recorder struct {
	system string
	older  bool  // an agent of a release without "setup"
	fails  error // of what the kernel of the guest refuses
	mu     sync.Mutex
	asked  []wire.InitConfig
}

// serve is the guest until ctx ends. It starts no program on this machine.
func (r *recorder) serve(ctx context.Context, socket string) error {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	boot := wire.BootReport{Kernel: "10.99.12", System: r.system}
	functions := map[string]serve.Function{
		"boot": func(context.Context, json.RawMessage) (any, error) { return boot, nil },
		"setup": func(_ context.Context, params json.RawMessage) (any, error) {
			var c wire.InitConfig
			if err := json.Unmarshal(params, &c); err != nil {
				return nil, err
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.asked = append(r.asked, c)
			if lacks := wire.Lacks(r.system, c); len(lacks) > 0 {
				return nil, fault.New(fault.Unsupported, "%s", strings.Join(lacks, "; "))
			}
			return struct{}{}, r.fails
		},
	}
	if r.older {
		boot.System = ""
		delete(functions, "setup")
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return ctx.Err()
		}
		go serve.Host(ctx, c, serve.Options{Functions: functions, Launch: pretend{}})
	}
}

// pretend starts true instead of what it is asked for.
type pretend struct{}

func (pretend) Launch(string, []string, *os.ProcAttr) (serve.Process, error) { return ended{}, nil }

type ended struct{}

func (ended) Wait() (channel.Result, error) { return channel.Result{}, nil }
func (ended) Kill()                         {}
func (ended) Release()                      {}

// machine is QEMU with such a guest.
func (r *recorder) machine(c *fake.Call) int {
	go fakeMonitor(c.Ctx, first(valueOf(c.Argv, "-qmp", "unix:")))
	r.serve(c.Ctx, first(valueOf(c.Argv, "-chardev", "socket,id=channel,path=")))
	return 0
}

// guestOf is a specification of a whole disk with a system.
func guestOf(t *testing.T, system string) driver.Spec {
	t.Helper()
	if testing.Short() || os.Getuid() != 0 {
		t.Skip("needs root, and not -short")
	}
	return driver.Spec{Label: fmt.Sprintf("qs%d-%d", os.Getpid(), labels.Add(1)), Name: system, Dir: t.TempDir(), CPUs: 1,
		CPUSet: []int{0}, Memory: minMemory, Agent: "bakeoff-agent", Memo: &driver.Memo{},
		Volumes: []volume.Volume{{Path: "/data", Backing: "tmpfs", Size: 16 * unit.MiB}},
		Tuning:  map[string]string{"kern.maxfiles": "4096"},
		Options: param.Values{optDisk: file(t, []byte("a disk")), optMachine: qemu.Q35, optSystem: system,
			optBootTimeout: "1m0s"}}
}

// The agent of a guest with a BSD mounts the volumes, takes the address on the
// experiment's network, and makes the settings. The name of the guest stays the user's.
func TestGuestIsSetUp(t *testing.T) {
	for i, system := range []string{systemNetBSD, systemFreeBSD} {
		t.Run(system, func(t *testing.T) {
			spec := guestOf(t, system)
			gateway := netip.MustParsePrefix(fmt.Sprintf("198.18.%d.1/24", 93+i))
			ns := "bo-" + spec.Label
			if err := netns.Create(t.Context(), local.Conn{}, ns, gateway); err != nil {
				t.Fatal(err)
			}
			defer netns.Remove(context.Background(), local.Conn{}, ns)
			spec.Network = &netns.Network{Namespace: ns, Bridge: netns.Bridge, Gateway: gateway.Addr(),
				Addr: netip.PrefixFrom(gateway.Addr().Next(), 24), MAC: "02:b0:00:00:5d:02"}
			r := &recorder{system: system}
			in, err := New().Create(t.Context(), fakeHostOf(t.TempDir(), r.machine), spec)
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close(context.Background())
			want := []wire.InitConfig{{Schema: wire.InitSchema,
				Volumes: []wire.InitVolume{{Path: "/data", Type: "tmpfs", Size: 16 * unit.MiB}},
				Network: &wire.InitNetwork{MAC: spec.Network.MAC, Addr: spec.Network.Addr},
				Sysctl:  []wire.InitSetting{{Name: "kern.maxfiles", Value: "4096"}}}}
			if !reflect.DeepEqual(r.asked, want) {
				t.Errorf("the agent was asked for %+v, want %+v", r.asked, want)
			}
			info := in.Info()
			if info.Addr != spec.Network.Addr.Addr() || info.Volumes["/data"] != "/data" || info.Facts["system"] != system {
				t.Errorf("it is %+v", info)
			}
		})
	}
}

// What goes wrong while a guest is set up is told with its reason, and leaves nothing.
func TestGuestIsNotSetUp(t *testing.T) {
	for name, tt := range map[string]struct {
		guest  *recorder
		change func(*driver.Spec)
		kind   fault.Kind
		says   []string
	}{
		"another system": {&recorder{system: systemFreeBSD}, nil, fault.Invalid,
			[]string{"the guest runs freebsd, not netbsd", "write guest-system: freebsd"}},
		"an older agent": {&recorder{older: true}, nil, fault.Invalid, []string{"too old to set up", "copy the agent"}},
		"its kernel refuses": {&recorder{system: systemNetBSD, fails: fault.New(fault.NotFound,
			"setting kern.maxfiles = 4096: no such file")}, nil, fault.Subject, []string{"setting kern.maxfiles = 4096"}},
		"nothing to set up": {&recorder{system: systemFreeBSD},
			func(s *driver.Spec) { s.Volumes, s.Tuning = nil, nil }, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			spec := guestOf(t, systemNetBSD)
			if tt.change != nil {
				tt.change(&spec)
			}
			in, err := New().Create(t.Context(), fakeHostOf(t.TempDir(), tt.guest.machine), spec)
			if err == nil {
				in.Close(context.Background())
			}
			if len(tt.says) > 0 {
				says(t, err, tt.kind, tt.says...)
			} else if err != nil || len(tt.guest.asked) > 0 {
				t.Errorf("asked for %v, %v", tt.guest.asked, err)
			}
			left, err := New().Reap(t.Context(), local.Conn{}, driver.Leftover{Label: spec.Label, Dir: spec.Dir}, true)
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %q, %v", left, err)
			}
		})
	}
}
