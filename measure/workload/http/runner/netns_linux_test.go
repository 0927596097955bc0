package runner

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/param"
	"bakeoff/measure/workload/http"
	"bakeoff/measure/workload/workloadtest"
	"bakeoff/provision/driver"
	"bakeoff/reach/conn/local"
)

// On a CPU that busy work holds as well, the generator says that it had to
// wait for it. Where there are two CPUs, the server has the other one, goes before
// others there, and costs the generator more than itself: behind a server that is
// starved, the generator would need so little of its CPU that it need not wait.
func TestTellsThatItStarved(t *testing.T) {
	if testing.Short() {
		t.Skip("keeps a CPU busy")
	}
	if _, err := os.Stat("/proc/thread-self/schedstat"); err != nil {
		t.Skip("needs a kernel with schedstats")
	}
	target, generator := bare(t), 0
	if runtime.NumCPU() > 1 {
		_, generator = twoCPUs(t)
		target = sidesOf(t, 0)[0].target
	}
	target.Peer = local.Conn{CPUs: []int{generator}}
	burn(t, generator)
	p := param.Defaults(New().Doc().Params)
	p["time"], p["timeout"], p["priority"] = "1s", "30s", http.Ordinary
	if err := New().Prepare(t.Context(), target, p); err != nil {
		t.Fatal(err)
	}
	raw, err := New().Run(t.Context(), target, p)
	if err != nil {
		t.Fatal(err)
	}
	values, err := New().Parse(raw, p)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		if v.Metric == "generator-starved" && v.Value > 0.05 {
			return
		}
	}
	t.Errorf("beside four busy loops: %v", values)
}

// namespaces makes two network namespaces that are joined by a pair of
// virtual cables, and returns their names and addresses.
func namespaces(t *testing.T) (names [2]string, addrs [2]netip.Addr) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Skipf("needs ip netns and veth: ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	for i := range names {
		names[i] = fmt.Sprintf("bo-http-%d-%d", os.Getpid(), i)
		ip("netns", "add", names[i])
		t.Cleanup(func() { exec.Command("ip", "netns", "del", names[i]).Run() })
		addrs[i] = netip.AddrFrom4([4]byte{198, 18, 255, byte(i + 1)})
	}
	ip("-n", names[0], "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", names[1])
	for i := range names {
		ip("-n", names[i], "addr", "add", addrs[i].String()+"/30", "dev", "eth0")
		ip("-n", names[i], "link", "set", "eth0", "up")
	}
	return names, addrs
}

// The server and its load in networks of their own, as environments have
// them: what listens is reached from the other end only, and every request
// takes the path between the two.
func TestAcrossNamespaces(t *testing.T) {
	target := bare(t)
	names, addrs := namespaces(t)
	target.Subject = &workloadtest.Instance{
		Conn:        local.Conn{Netns: names[0]},
		Information: driver.Info{Scratch: target.Subject.Info().Scratch},
	}
	target.Peer, target.Addr = local.Conn{Netns: names[1]}, addrs[0]
	for _, args := range []param.Values{{}, {"rate": "500/s"}, {"tls": "true"}} {
		p := param.Defaults(New().Doc().Params)
		for _, v := range []param.Values{{"time": "500ms", "connections": "5", "timeout": "10s"}, args} {
			for name, text := range v {
				p[name] = text
			}
		}
		if err := New().Prepare(t.Context(), target, p); err != nil {
			t.Fatal(err)
		}
		raw, err := New().Run(t.Context(), target, p)
		if err != nil {
			t.Fatal(err)
		}
		values, err := New().Parse(raw, p)
		if err != nil || len(values) < 6 || values[0].Metric != "throughput" || values[0].Value <= 0 {
			t.Errorf("%v: %v, %v", args, values, err)
		}
	}
	p := param.Defaults(New().Doc().Params)
	p["connections"] = "5"
	target.Peer = local.Conn{} // which is in neither
	if err := New().Reset(t.Context(), target, p); !fault.Is(err, fault.Subject) {
		t.Errorf("the server was reached from outside: %v", err)
	}
}
