package filter

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bakeoff/base/fault"
	"bakeoff/provision/vm/filter/filtertest"
)

// within calls do in a network namespace of its own, on a thread that ends with it.
func within(t *testing.T, do func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			do()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// packets opens a socket for the frames of a link.
func packets(link string, protocol int) (int, error) {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	r, err := unix.NewIfreq(link)
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, r)
	}
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: uint16(protocol>>8 | protocol&0xff<<8),
			Ifindex: int(r.Uint32())})
	}
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
	}
	return fd, err
}

func needsNetworks(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("makes network namespaces; run without -short")
	}
	if os.Getuid() != 0 {
		t.Skip("needs root: network namespaces")
	}
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("needs nft: apt-get install nftables")
	}
}

// links makes a bridge between a guest (inner, with its other end outer) and a host (sees), and
// opens sockets for the frames that one of them sends and the other one receives.
func links(t *testing.T, sends, receives string) (from, to int, err error) {
	t.Helper()
	run(t, "", "ip", "link", "add", "inner", "type", "veth", "peer", "name", "outer")
	run(t, "", "ip", "link", "add", "sees", "type", "veth", "peer", "name", "port")
	run(t, "", "ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
	for _, l := range []string{"inner", "outer", "sees", "port", "br0"} {
		run(t, "", "ip", "link", "set", l, "addrgenmode", "none", "up")
	}
	run(t, "", "ip", "link", "set", "outer", "master", "br0")
	run(t, "", "ip", "link", "set", "port", "master", "br0")
	if from, err = packets(sends, 0); err == nil {
		to, err = packets(receives, unix.ETH_P_ALL)
	}
	return from, to, err
}

// Every frame that needs a flag is dropped without it, and passes with it; all frames are sent
// with each set of flags. The rules are changed while the link is up.
func TestPacketsThatMustNotPass(t *testing.T) {
	needsNetworks(t)
	frames := filtertest.Frames()
	kinds := 0
	for _, f := range frames {
		if len(f.Needs) > 0 {
			kinds++
		}
	}
	if kinds < 40 {
		t.Errorf("%d kinds of frames", kinds)
	}
	within(t, func() {
		from, to, err := links(t, "inner", "sees")
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(from)
		defer unix.Close(to)
		for round, with := range filtertest.Sets() {
			rules, err := Rules("outer", nicWith(with))
			if err != nil {
				t.Error(err)
				return
			}
			run(t, rules, "nft", "-f", "-")
			for i, f := range frames {
				if _, err := unix.Write(from, f.Marked(i, uint32(round))); err != nil {
					t.Error(f.Name, err)
				}
			}
			last := filtertest.Frame{Bytes: frames[0].Bytes}.Marked(len(frames), uint32(round))
			if _, err := unix.Write(from, last); err != nil {
				t.Error(err)
			}
			seen, err := collect(to, uint32(round), len(frames))
			if err != nil {
				t.Error(err)
				return
			}
			for _, w := range filtertest.Wrong(frames, with, seen) {
				t.Error(w)
			}
		}
		run(t, Remove("outer"), "nft", "-f", "-")
		run(t, Remove("outer"), "nft", "-f", "-")
		if out := run(t, "", "nft", "list", "ruleset"); out != "" {
			t.Errorf("rules are left: %s", out)
		}
	})
}

// A guest receives no frames for other MAC addresses, and none with the tag of a VLAN, unless a
// flag permits them.
func TestFramesThatMustNotArrive(t *testing.T) {
	needsNetworks(t)
	const others, tags = "allow_unfiltered_promisc", string(filtertest.RestrictedTraffic)
	frames := []struct{ name, head, needs string }{
		{"for it", "02000000000a 02000000000c 88b5", ""},
		{"for all", "ffffffffffff 02000000000c 88b5", ""},
		{"for another", "02000000000b 02000000000c 88b5", others},
		{"for all with a tag", "ffffffffffff 02000000000c 8100 0007 88b5", tags},
		{"for it with a tag", "02000000000a 02000000000c 8100 0007 88b5", tags},
		{"with priority and no VLAN", "ffffffffffff 02000000000c 8100 e000 88b5", ""},
		{"with a tag inside that of a priority", "02000000000a 02000000000c 8100 e000 8100 0007 88b5", tags},
		{"with a tag inside two of priorities", "02000000000a 02000000000c 8100 0000 8100 0000 8100 0007 88b5", tags},
		{"with a provider's tag inside that of a priority", "02000000000a 02000000000c 8100 0000 88a8 0007 88b5", tags},
		{"with a priority inside a tag", "02000000000a 02000000000c 8100 0007 8100 0000 88b5", tags},
		{"with the tag of a provider", "ffffffffffff 02000000000c 88a8 0007 8100 0008 88b5", tags},
		{"the last one", "02000000000a 02000000000c 88b5", ""},
	}
	within(t, func() {
		from, to, err := links(t, "sees", "inner")
		if err != nil {
			t.Error(err)
			return
		}
		defer unix.Close(from)
		defer unix.Close(to)
		for _, flag := range []string{"", others, tags} {
			rules, err := Rules("outer", NIC{MAC: filtertest.MAC, AllowUnfilteredPromisc: flag == others,
				AllowRestrictedTraffic: flag == tags})
			if err != nil {
				t.Error(err)
				return
			}
			run(t, rules, "nft", "-f", "-")
			text := func(i int) string { return fmt.Sprintf("<%d with %q>", i, flag) }
			for i, f := range frames {
				head, err := hex.DecodeString(strings.ReplaceAll(f.head, " ", ""))
				if err == nil {
					_, err = unix.Write(from, slices.Concat(head, []byte(text(i)), make([]byte, 60)))
				}
				if err != nil {
					t.Error(f.name, err)
				}
			}
			var seen strings.Builder
			err = read(to, func(b []byte) bool {
				seen.Write(b)
				return bytes.Contains(b, []byte(text(len(frames)-1)))
			})
			if err != nil {
				t.Error(err)
				return
			}
			for i, f := range frames {
				if got, want := strings.Contains(seen.String(), text(i)), f.needs == "" || f.needs == flag; got != want {
					t.Errorf("a frame %s, with %q: arrives: %v", f.name, flag, got)
				}
			}
		}
	})
}

// nicWith is the NIC of the frames with some flags.
func nicWith(with []filtertest.Flag) NIC {
	has := func(f filtertest.Flag) bool { return slices.Contains(with, f) }
	n := NIC{MAC: filtertest.MAC, ClientIDs: [][]byte{[]byte(filtertest.ClientID)},
		AllowMACSpoofing: has(filtertest.MACSpoofing), AllowRestrictedTraffic: has(filtertest.RestrictedTraffic),
		AllowIPSpoofing: has(filtertest.IPSpoofing), AllowDHCPSpoofing: has(filtertest.DHCPSpoofing)}
	for _, text := range []string{filtertest.Address + "/32", filtertest.Address6 + "/128", filtertest.AllowedNetwork,
		filtertest.AllowedNetwork6, "10.9.5.9/32"} {
		n.Addresses = append(n.Addresses, netip.MustParsePrefix(text))
	}
	if !has(filtertest.AnyPort) {
		n.BlockedPorts = []int{filtertest.BlockedPort}
	}
	return n
}

// collect reads frames until the last one of a round.
func collect(fd int, round uint32, last int) (map[int]bool, error) {
	seen := map[int]bool{}
	err := read(fd, func(b []byte) bool {
		number, of, ok := filtertest.Read(b)
		if !ok || of != round || number == last {
			return ok && of == round
		}
		seen[number] = true
		return false
	})
	return seen, fault.Op(fmt.Sprintf("round %d", round), err)
}

// read calls each for every frame until it returns true.
func read(fd int, each func(b []byte) bool) error {
	buf, end := make([]byte, 4096), time.Now().Add(time.Minute)
	for {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(p, 1000); err != nil && err != unix.EINTR {
			return err
		} else if n <= 0 {
			if time.Now().After(end) {
				return errors.New("the last frame did not arrive within a minute")
			}
			continue
		}
		n, err := unix.Read(fd, buf)
		if err != nil {
			return err
		}
		if each(buf[:n]) {
			return nil
		}
	}
}

func run(t *testing.T, in string, argv ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Stdin = strings.NewReader(in)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Errorf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}
