package probe

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
)

// ifreqSize is the size of struct ifreq of NetBSD.
const ifreqSize = 144

// ifreq is a struct ifreq with a sockaddr.
func ifreq(name string, address ...byte) []byte {
	b := make([]byte, ifreqSize)
	copy(b, name)
	copy(b[16:], address)
	return b
}

// netBSDInterfaces is what a guest with one card reports.
//
// A link address has its length, AF_LINK, the index of the interface, its type,
// and the lengths of its name, address and selector, then name and address.
func netBSDInterfaces() []byte {
	card := append([]byte{14 + 6, 18, 1, 0, 6, 6, 6, 0}, "vioif0\x02\xb1\x00\x00\x00\x01"...)
	loop := append([]byte{11, 18, 2, 0, 24, 3, 0, 0}, "lo0"...)
	return slices.Concat(ifreq("vioif0", card...), ifreq("lo0", loop...), ifreq("lo0", 16, 2, 0, 0, 127, 0, 0, 1),
		ifreq("vioif0", 16, 2, 0, 0, 10, 0, 2, 15))
}

func TestInterfacesOfNetBSD(t *testing.T) {
	list := netBSDInterfaces()
	var names []string
	for _, i := range interfacesOf(list, ifreqSize) {
		names = append(names, i.Name, i.HardwareAddr.String())
	}
	if got, want := fmt.Sprint(names), "[vioif0 02:b1:00:00:00:01 lo0 ]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for cut := range len(list) {
		if n := len(interfacesOf(list[:cut], ifreqSize)); n > 2 {
			t.Errorf("%d interfaces in %d bytes", n, cut)
		}
	}
	long := ifreq("vioif0", 20, 18, 1, 0, 6, 255, 255, 0)
	if found := interfacesOf(long, ifreqSize); len(found) != 1 || found[0].HardwareAddr != nil {
		t.Errorf("an address outside of its request: %+v", found)
	}
}

// NetBSD's list has no flags: the name tells the loopback interface.
func TestCardsOfNetBSD(t *testing.T) {
	found := append(interfacesOf(netBSDInterfaces(), ifreqSize),
		net.Interface{Name: "lo1", HardwareAddr: net.HardwareAddr{2, 0, 0, 0, 0, 9}})
	got := cardsOf(found, func(name string) bool { return !strings.HasPrefix(name, "lo") })
	if want := []string{"02:b1:00:00:00:01"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func FuzzInterfacesOf(f *testing.F) {
	f.Add(make([]byte, 288), ifreqSize)
	f.Add(netBSDInterfaces(), ifreqSize)
	f.Add([]byte("lo0"), 32)
	f.Fuzz(func(t *testing.T, list []byte, size int) {
		if n := len(interfacesOf(list, size)); n > len(list)/24 {
			t.Errorf("%d interfaces in %d bytes", n, len(list))
		}
	})
}
