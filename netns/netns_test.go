package netns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"bakeoff/conn"
	"bakeoff/conn/local"
	"bakeoff/driver"
)

func TestNamesFit(t *testing.T) {
	for _, label := range []string{"a", "0123456789abcdef0123456789abcdef01234567"} {
		for _, name := range []string{Outer(label), Inner(label), Tap(label)} {
			if len(name) > 15 {
				t.Errorf("%s has %d bytes; the kernel takes 15", name, len(name))
			}
		}
	}
	if Outer("a-1") == Outer("a-2") || Outer("a") == Inner("a") {
		t.Error("two links share a name")
	}
}

// The experiment's network for real: the generator's namespace reaches an
// environment in the host's namespace and one in its own, and nothing stays.
func TestReaches(t *testing.T) {
	if testing.Short() {
		t.Skip("makes network namespaces; run without -short")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	host := local.Conn{}
	if err := Check(ctx, host); err != nil {
		t.Skip(err)
	}
	name := fmt.Sprintf("bo-t%d", os.Getpid())
	if err := Create(ctx, host, name, netip.MustParsePrefix("198.18.77.1/24")); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := Remove(context.WithoutCancel(ctx), host, name); err != nil {
			t.Error(err)
		}
	}()
	bare := driver.Network{Namespace: name, Bridge: Bridge, Addr: netip.MustParsePrefix("198.18.77.2/24"), MAC: "02:b0:00:00:00:02"}
	own := driver.Network{Namespace: name, Bridge: Bridge, Addr: netip.MustParsePrefix("198.18.77.3/24"), MAC: "02:b0:00:00:00:03"}
	label := name[3:]
	if err := AttachHost(ctx, host, bare, label+"-h"); err != nil {
		t.Fatal(err)
	}
	if err := AttachOwn(ctx, host, &own, label+"-o"); err != nil {
		t.Fatal(err)
	}
	if err := AttachTap(ctx, host, own, label+"-t"); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "198.18.77.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	connect := func(from, to string) error {
		script := fmt.Sprintf("exec 3<>/dev/tcp/%s/%d", to, port)
		_, err := conn.Output(ctx, host, "ip", "netns", "exec", from, "timeout", "5", "bash", "-c", script)
		return err
	}
	if err := connect(name, "198.18.77.2"); err != nil {
		t.Errorf("the generator does not reach the bare host: %v", err)
	}
	if err := connect(Own(label+"-o"), "198.18.77.2"); err != nil {
		t.Errorf("an environment of its own is not on the bridge: %v", err)
	}
	for range 2 { // a second time finds nothing and is fine
		if err := DetachHost(ctx, host, label+"-h"); err != nil {
			t.Error(err)
		}
		if err := DetachOwn(ctx, host, label+"-o"); err != nil {
			t.Error(err)
		}
		if err := DetachTap(ctx, host, name, label+"-t"); err != nil {
			t.Error(err)
		}
	}
	for _, link := range []string{Outer(label + "-h"), Outer(label + "-o"), Tap(label + "-t")} {
		if have, err := HasLink(ctx, host, name, link); err != nil || have {
			t.Errorf("%s is still there (%v)", link, err)
		}
	}
}
