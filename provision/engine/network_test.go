package engine

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/provision/driver"
	"bakeoff/provision/isolation"
	"bakeoff/provision/netns"
)

func TestNetworkFlags(t *testing.T) {
	place := &netns.Network{Addr: netip.MustParsePrefix("198.18.0.2/24")}
	for n, want := range map[Network]string{
		HostNet: "--network host",
		Bridge:  "--network bridge --sysctl net.core.somaxconn=9",
		Published: "--network bridge --publish 198.18.0.2:80:80/tcp --publish 198.18.0.2:8079:8079/tcp --sysctl " +
			"net.core.somaxconn=9",
		Slirp: "--network slirp4netns --publish 198.18.0.2:80:80/tcp --publish 198.18.0.2:8079:8079/tcp --sysctl " +
			"net.core.somaxconn=9",
	} {
		spec := driver.Spec{
			Network: place,
			Ports:   []uint16{80, 8079},
			Tuning:  map[string]string{"net.core.somaxconn": "9"},
		}
		c := &Container{Env: &isolation.Env{Spec: spec}, Options: Options{Network: n}}
		if got := strings.Join(c.NetworkFlags(), " "); got != want {
			t.Errorf("%s: %s\nwant %s", n, got, want)
		}
		if o := c.Options.For(driver.Spec{}); o.Network != Experiment {
			t.Errorf("%s: a container without a place on the experiment's network is on %s", n, o.Network)
		}
	}
}

// What a network cannot have is refused before anything starts.
func TestValidate(t *testing.T) {
	outside := &netns.Network{Outside: true}
	for _, c := range []struct {
		network Network
		spec    driver.Spec
		want    string
	}{
		{HostNet, driver.Spec{Tuning: map[string]string{"net.core.somaxconn": "9"}},
			"remove tuning, or choose another network"},
		{Bridge, driver.Spec{Network: outside}, "set network: published, or remove the generator"},
		{Published, driver.Spec{Network: outside}, ""},
		{HostNet, driver.Spec{}, ""},
	} {
		err := Options{Network: c.network}.Validate(c.spec)
		if (err != nil) != (c.want != "") ||
			err != nil && (!fault.Is(err, fault.Unsupported) || fault.Fix(err) != c.want) {
			t.Errorf("%s: %v, fix %q", c.network, err, fault.Fix(err))
		}
	}
}

func TestNetworkOption(t *testing.T) {
	s := NetworkOption(Experiment, HostNet, Bridge)
	if !slices.IsSorted(s.Enum) || s.Default != "experiment" || !strings.HasSuffix(s.Doc, "container's own address.") {
		t.Errorf("%+v", s)
	}
}
