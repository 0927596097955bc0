package volume

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/base/fault"
	"bakeoff/base/unit"
	"bakeoff/provision/netns"
	"bakeoff/reach/conn"
	"bakeoff/reach/conn/local"
)

// network is an experiment's network of a test, and the NFS volume of an environment on it.
func network(t *testing.T) Volume {
	t.Helper()
	if testing.Short() {
		t.Skip("mounts file systems; run without -short")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	if err := Lacks(t.Context(), local.Conn{}, NFS, true); err != nil {
		t.Skip(err)
	}
	name := fmt.Sprintf("bo-nfs%d-%d", os.Getpid(), time.Now().UnixNano()%1e6)
	gateway := netip.MustParsePrefix("198.18.252.1/24")
	if err := netns.Create(t.Context(), local.Conn{}, name, gateway); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := netns.Remove(context.Background(), local.Conn{}, name); err != nil {
			t.Error(err)
		}
	})
	vs := []Volume{{Path: "/data", Backing: NFS, Size: 64 * unit.MiB}}
	Place(vs, name, gateway.Addr(), netip.MustParseAddr("198.18.252.2"))
	return vs[0]
}

// answers makes the call NULL of NFS version 4 (RFC 5531, RFC 8881) and says whether the
// server accepts it.
func answers(ctx context.Context, s Server) error {
	c, err := local.Conn{Netns: s.Namespace}.Dial(ctx, "tcp", s.Addr.String())
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	const xid = 7
	call := []uint32{1<<31 | 40, xid, 0, 2, 100003, 4, 0, 0, 0, 0, 0} // the last record, of 40 bytes
	if err := binary.Write(c, binary.BigEndian, call); err != nil {
		return err
	}
	reply := make([]uint32, 7)
	if err := binary.Read(c, binary.BigEndian, reply); err != nil {
		return err
	}
	if want := []uint32{1<<31 | 24, xid, 1, 0, 0, 0, 0}; !slices.Equal(reply, want) {
		return fmt.Errorf("it answered %v, not %v", reply, want)
	}
	return nil
}

// A real server answers on the experiment's network only, and is found and ended by the
// directory of its environment alone.
func TestNFS(t *testing.T) {
	v, dir, host := network(t), t.TempDir(), local.Conn{}
	cached, err := Serve(t.Context(), host, dir, v)
	defer Close(context.WithoutCancel(t.Context()), host, dir)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(cached, CacheUsed+": the server") {
		t.Errorf("the host's cache is %q", cached)
	}
	if err := answers(t.Context(), *v.Server); err != nil {
		t.Error(err)
	}
	outside, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if answers(outside, Server{Addr: v.Server.Addr}) == nil {
		t.Error("the server answers outside of the experiment's network")
	}
	left, err := Left(t.Context(), host, dir)
	if err != nil || len(left) != 1 || !strings.HasSuffix(left[0], " ganesha.nfsd") {
		t.Errorf("of a live server there is %q, %v", left, err)
	}
	// A second server has no place: the error is the server's own, and not a time-out.
	second := t.TempDir()
	defer Close(context.WithoutCancel(t.Context()), host, second)
	if _, err := Serve(t.Context(), host, second, v); !fault.Is(err, fault.Lab) ||
		!strings.Contains(err.Error(), "ganesha.nfsd ended: ") {
		t.Errorf("a second server at the same address: %v", err)
	}
	for range 2 {
		if err := Close(t.Context(), host, dir); err != nil {
			t.Error(err)
		}
	}
	if left, err := Left(t.Context(), host, dir); err != nil || len(left) != 0 {
		t.Errorf("left: %q, %v", left, err)
	}
	if mounts, err := Mounts(t.Context(), host, dir); err != nil || len(mounts) != 0 {
		t.Errorf("mounts left: %q, %v", mounts, err)
	}
	if answers(t.Context(), *v.Server) == nil {
		t.Error("the server answers after Close")
	}
}

// becoming is a host on which the server becomes another program, which takes some looks: a
// process has no arguments meanwhile.
type becoming struct {
	local.Conn
	empty int
}

func (b *becoming) ReadFile(ctx context.Context, name string) ([]byte, error) {
	if strings.HasSuffix(name, "/cmdline") && b.empty > 0 {
		b.empty--
		return nil, nil
	}
	return os.ReadFile(name)
}

// A server that has just been started is found, too.
func TestAServerThatStartsIsFound(t *testing.T) {
	base := filepath.Join(t.TempDir(), "volume-2f64")
	server := exec.Command("sh", "-c", "read wait", "sh", base+nfsConfig)
	end, err := server.StdinPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprintf("%d\n", server.Process.Pid)
	if err := os.WriteFile(base+nfsPID, []byte(id), 0o600); err != nil {
		t.Fatal(err)
	}
	host := &becoming{empty: 3}
	if pid, err := nfsServer(t.Context(), host, base); err != nil || pid != server.Process.Pid || host.empty != 0 {
		t.Errorf("found %d, %v, after %d looks", pid, err, 3-host.empty)
	}
	end.Close() // it ends, and has no arguments until somebody waits for it
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		pid, err := nfsServer(t.Context(), local.Conn{}, base)
		if pid == 0 && err == nil {
			break
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("a server that has ended: %d, %v", pid, err)
		}
	}
	server.Wait()
}

// client is a host whose kernel mounts NFS, which this machine's need not.
type client struct {
	local.Conn
	mounts []string
}

func (c *client) Exec(ctx context.Context, cmd conn.Cmd) (conn.Exit, error) {
	if i := slices.Index(cmd.Argv, "nfs4"); i > 0 && slices.Contains(cmd.Argv, "mount") {
		c.mounts = append(c.mounts, strings.Join(cmd.Argv, " "))
		return conn.Exit{}, nil
	}
	return c.Conn.Exec(ctx, cmd)
}

// An environment with the kernel of its host mounts over the experiment's network, too.
func TestTheHostMountsNFS(t *testing.T) {
	v, dir, host := network(t), t.TempDir(), &client{}
	v.Properties = map[string]string{"version": "4.1"}
	at, _, err := Mount(t.Context(), host, host, dir, v)
	defer Close(context.WithoutCancel(t.Context()), host, dir)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("nsenter --net=/run/netns/%s -- mount -i -t nfs4 -o noatime,vers=4.1,proto=tcp,port=%d,sec=sys,"+
		"hard,addr=198.18.252.1,clientaddr=198.18.252.2 198.18.252.1:/volume %s", v.Server.Namespace,
		v.Server.Addr.Port(), at)
	if len(host.mounts) != 1 || host.mounts[0] != want {
		t.Errorf("mounted\n%q, want\n%q", host.mounts, want)
	}
}

// Ports of environments that are alive at the same time differ.
func TestPortsOfServers(t *testing.T) {
	seen, gateway := map[uint16]string{}, netip.MustParseAddr("198.18.0.1")
	for a := gateway.Next(); len(seen) < 3*2000; a = a.Next() {
		vs := []Volume{{Path: "/a", Backing: NFS}, {Path: "/b", Backing: Tmpfs}, {Path: "/c", Backing: NFS},
			{Path: "/d", Backing: NFS}}
		Place(vs, "bo-x", gateway, a)
		for _, v := range vs {
			if v.Backing != NFS {
				if v.Server != nil {
					t.Fatalf("%s has a server", v.Path)
				}
				continue
			}
			p, who := v.Server.Addr.Port(), a.String()+v.Path
			if seen[p] != "" || p < 1024 || p >= 32768 {
				t.Fatalf("%s has port %d, as has %q", who, p, seen[p])
			}
			seen[p] = who
		}
	}
}

// A host without the server, one without its module, and one whose kernel has no client are
// refused with what helps; so is an environment without a network.
func TestNFSThatCannotBe(t *testing.T) {
	for name, tt := range map[string]struct {
		host  conn.Conn
		guest bool
		says  string
	}{
		"no server": {lacking{lacks: "command -v ganesha.nfsd"}, true,
			"ganesha.nfsd is not installed; apt-get install nfs-ganesha"},
		"no module": {lacking{lacks: "libfsalvfs.so"}, true,
			"the module VFS of NFS-Ganesha is not installed; apt-get install"},
		"no client": {lacking{lacks: "modprobe"}, false, "the kernel of the host has no nfs4"},
	} {
		if err := Lacks(t.Context(), tt.host, NFS, tt.guest); !fault.Is(err, fault.Unsupported) ||
			!strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := t.TempDir()
	_, err := Serve(t.Context(), local.Conn{}, dir, Volume{Path: "/data", Backing: NFS, Size: unit.GiB})
	if !fault.Is(err, fault.Unsupported) || !strings.Contains(err.Error(), "not on the experiment's network") {
		t.Errorf("without a network: %v", err)
	}
	if files, err := filepath.Glob(dir + "/*"); err != nil || len(files) != 0 {
		t.Errorf("it left %q", files)
	}
}

// lacking is a host on which every program works but that whose arguments contain the text,
// and whose kernel has ext4 only.
type lacking struct {
	conn.Conn
	lacks string
}

func (l lacking) Exec(_ context.Context, c conn.Cmd) (conn.Exit, error) {
	call := strings.Join(c.Argv, " ")
	switch {
	case strings.Contains(call, l.lacks):
		return conn.Exit{Code: 1}, nil
	case strings.Contains(call, "/proc/filesystems"):
		io.WriteString(c.Stdout, "nodev\ttmpfs\n\text4\n")
	}
	return conn.Exit{}, nil
}
