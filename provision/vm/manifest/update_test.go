package manifest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"bakeoff/base/fault"
)

func newGuest(t *testing.T) Guest {
	t.Helper()
	guests, err := Read("newbox.json", []byte(newbox))
	if err != nil {
		t.Fatal(err)
	}
	g := guests[0]
	g.UUID, g.NICs[0].MAC = "d7b00fa6-8aa5-466b-aba4-664913e80a2e", "02:00:00:00:00:01"
	return g
}

// A guest that was read and written is read as the same guest.
func TestReadWhatIsWritten(t *testing.T) {
	for _, src := range []string{newbox, `{"brand": "lx", "image": "debian:12", "quota": 0, "tmpfs": 0, "ram": 64}`,
		`{"brand": "docker", "image": "a", "filesystems": [{"source": "/a", "target": "/b", "type": "lofs"}]}`} {
		guests, err := Read("f", []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(document(guests[0]))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Read("f", text)
		if err != nil || len(Diff(guests[0], again[0])) > 0 {
			t.Errorf("%v, %v", err, Diff(guests[0], again[0]))
		}
	}
}

func TestUpdate(t *testing.T) {
	for src, want := range map[string]string{
		`{}`:               "",
		`{"ram": "256"}`:   "",
		`{"alias": "web"}`: `alias: (none) -> "web" (live)`,
		`{"ram": 512}`: "max_locked_memory: 1280 -> 1536 (next boot)\nmax_physical_memory: 1280 -> 1536 (next boot)\n" +
			"max_swap: 1280 -> 1536 (next boot)\nram: 256 -> 512 (next boot)",
		`{"set_tags": {"role": "front", "n": 7}}`: "tags.n: (none) -> 7 (live)\n" +
			"tags.role: (none) -> \"front\" (live)",
		`{"set_tags": {"role": "front"}, "remove_tags": ["role"]}`: `tags.role: (none) -> "front" (live)`,
		`{"autoboot": 1}`:                                      "",
		`{"autoboot": "0"}`:                                    "autoboot: true -> false (live)",
		`{"remove_disks": "/dev/none"}`:                        "",
		`{"remove_filesystems": []}`:                           "",
		`{"remove_customer_metadata": "x"}`:                    "",
		`{"vcpus": null}`:                                      "vcpus: 2 -> 1 (next boot)",
		`{"update_nics": [{"mac": "2:0:0:0:0:1"}]}`:            "",
		`{"remove_nics": ["02:00:00:00:00:09"]}`:               "",
		`update_nics: [{mac: "02:00:00:00:00:01", mtu: 9000}]`: "nics.0.mtu: (none) -> 9000 (next boot)",
		`{"update_nics": [{"mac": "02:00:00:00:00:01", "ips": ["192.0.2.11/25"]}]}`: "" +
			`nics.0.ip: "192.0.2.10" -> "192.0.2.11" (next boot)
nics.0.ips: ["192.0.2.10/24"] -> ["192.0.2.11/25"] (next boot)
nics.0.netmask: "255.255.255.0" -> "255.255.255.128" (next boot)`,
	} {
		old := newGuest(t)
		next, changes, err := Update(old, "u", []byte(src))
		var lines []string
		for _, c := range changes {
			lines = append(lines, c.String())
		}
		if got := strings.Join(lines, "\n"); err != nil || got != want {
			t.Errorf("%s: %v\n%s\ninstead of\n%s", src, err, got, want)
		}
		if again, more, err := Update(next, "u", []byte(src)); err != nil || len(more) > 0 || len(Diff(next, again)) > 0 {
			t.Errorf("%s again: %v, %v", src, more, err)
		}
	}
	next, _, err := Update(newGuest(t), "u", []byte(`{"remove_customer_metadata": ["root_authorized_keys"],
		"add_nics": [{"nic_tag": "b", "ips": "10.0.0.2/24"}], "remove_nics": "02:00:00:00:00:01"}`))
	if err != nil || len(next.CustomerMetadata) != 0 || len(next.NICs) != 1 || next.NICs[0].IP != "10.0.0.2" ||
		!next.NICs[0].Primary {
		t.Errorf("%+v, %v", next.NICs, err)
	}
}

// The limits of most guests change while they run.
func TestWhenLimitsChange(t *testing.T) {
	all := []string{Crun, Runc, Nspawn, LXC, Jail, QEMU, Firecracker, DriverBhyve}
	for property, live := range map[string][]string{
		"cpu_cap": all[:6], "cpu_shares": {Crun, Runc, Nspawn, LXC, QEMU}, "max_lwps": all[:4], "ram": all[:5],
		"resolvers": nil, "maintain_resolvers": all[:4],
	} {
		for i, driver := range all {
			old := Guest{Brand: Docker, Driver: driver, RAM: 128, MaxPhysicalMemory: 2048}
			if i > 4 {
				old.Brand = Bhyve
			}
			Complete(&old)
			after := old
			switch property {
			case "cpu_cap":
				after.CPUCap = 50
			case "cpu_shares":
				after.CPUShares = 50
			case "max_lwps":
				after.MaxLWPs = 50
			case "ram":
				after.RAM = 64
			case "resolvers":
				after.Resolvers = []string{"192.0.2.53"}
			case "maintain_resolvers":
				after.MaintainResolvers = true
			}
			want := map[bool]When{true: Live, false: NextBoot}[slices.Contains(live, driver)]
			if c := Diff(old, after); len(c) != 1 || c[0].Path != property || c[0].When != want {
				t.Errorf("%s of %s: %v instead of %s", property, driver, c, want)
			}
		}
	}
	old := Guest{Brand: Docker, Driver: Crun, MaintainResolvers: true}
	after := old
	after.Resolvers = []string{"192.0.2.53"}
	if c := Diff(old, after); len(c) != 1 || c[0].When != Live {
		t.Errorf("resolvers that bakeoff maintains: %v", c)
	}
}

// Routes change at once, but not before the NICs that they may need.
func TestWhenRoutesChange(t *testing.T) {
	old := Guest{Brand: Docker, NICs: []NIC{{MAC: "02:00:00:00:00:01", NicTag: "a"}},
		Routes: map[string]any{"10.0.0.0/8": "nics[0]"}}
	for _, test := range []struct {
		driver string
		change func(n *NIC)
		want   When
	}{
		{Crun, func(*NIC) {}, Live}, {LXC, func(*NIC) {}, Live}, {Jail, func(*NIC) {}, NextBoot},
		{Crun, func(n *NIC) { n.AllowIPSpoofing = true }, Live}, {Crun, func(n *NIC) { n.MTU = 1400 }, NextBoot},
	} {
		before, after := old, old
		before.Driver, after.Driver = test.driver, test.driver
		after.Routes = map[string]any{"10.0.0.0/8": "10.1.0.1"}
		after.NICs = slices.Clone(old.NICs)
		test.change(&after.NICs[0])
		all := Diff(before, after)
		if c := all[len(all)-1]; c.Path != "routes.10.0.0.0/8" || c.When != test.want {
			t.Errorf("%s: %v", test.driver, all)
		}
	}
}

// The screen of a machine of QEMU changes at once if it stays a screen with, or without, a password.
func TestWhenScreenChanges(t *testing.T) {
	for _, test := range []struct {
		driver     string
		port, next int
		password   [2]string
		want       When
	}{
		{QEMU, 5900, 5901, [2]string{"a", "a"}, Live}, {QEMU, 5900, 0, [2]string{"a", "b"}, Live},
		{QEMU, 5900, 5901, [2]string{}, Live}, {QEMU, 5900, 5901, [2]string{"", "a"}, NextBoot},
		{QEMU, 5900, -1, [2]string{"a", "a"}, NextBoot}, {QEMU, -1, 5901, [2]string{"a", "a"}, NextBoot},
		{QEMU, 5900, 0, [2]string{}, NextBoot}, {DriverBhyve, 5900, 5901, [2]string{"a", "a"}, NextBoot},
	} {
		old := Guest{Brand: KVM, Driver: test.driver, VNCPort: test.port, VNCPassword: test.password[0]}
		after := old
		after.VNCPort, after.VNCPassword = test.next, test.password[1]
		all := Diff(old, after)
		if len(all) == 0 || slices.ContainsFunc(all, func(c Change) bool { return c.When != test.want }) {
			t.Errorf("%+v: %v", test, all)
		}
	}
}

// A NIC that becomes primary is the only one. Without the primary one, the first with a public address
// is it, and otherwise the first.
func TestPrimary(t *testing.T) {
	for src, want := range map[string]int{
		`{"add_nics": [{"nic_tag": "b", "ips": "10.0.0.2/24", "primary": true}]}`: 1,
		`{"add_nics": [{"nic_tag": "b", "ips": "10.0.0.2/24"}]}`:                  0,
		`{"add_nics": [{"nic_tag": "b", "ips": "10.0.0.2/24"}, {"nic_tag": "b", "ips": "198.51.100.7/24"}],
			"remove_nics": ["02:00:00:00:00:01"]}`: 1,
		`{"add_nics": [{"nic_tag": "b", "ips": "10.0.0.2/24"}, {"nic_tag": "b", "ips": "10.0.0.3/24"}],
			"remove_nics": ["02:00:00:00:00:01"]}`: 0,
	} {
		next, _, err := Update(newGuest(t), "u", []byte(src))
		if err != nil {
			t.Errorf("%s: %v", src, err)
		}
		for i, n := range next.NICs {
			if n.Primary != (i == want) {
				t.Errorf("%s: %+v", src, next.NICs)
			}
		}
	}
}

// Every mistake of an update is reported, and nothing changes.
func TestWrongUpdate(t *testing.T) {
	for src, want := range map[string]string{
		`{"brand": "lx"}`: "u:1:11: brand: \"lx\": it is fixed when a guest is created; create another guest",
		`{"uuid": "d7b00fa6-8aa5-466b-aba4-664913e80a2f"}`: "fixed",
		`{"nics": []}`:                     "use add_nics, update_nics or remove_nics",
		`{"tags": {}}`:                     "use set_tags or remove_tags",
		`{"rma": 1}`:                       `did you mean "ram"?`,
		`{"ram": "much", "vcpus": 65}`:     "vcpus",
		`{"autoboot": null}`:               "write true or false",
		`{"update_nics": [{"mtu": 1500}]}`: "the guest has no item with this mac",
		`{"update_nics": [{"mac": "02:00:00:00:00:01", "primary": false}]}`: "" +
			"update_nics.0.primary: false: a NIC is primary until another one",
		`{"remove_nics": [{"mac": "02:00:00:00:00:01"}]}`: "" +
			"remove_nics.0: a mapping: it is not a text; write a list of values of mac",
		`{"remove_tags": {"role": 1}}`: "" +
			"remove_tags: a mapping: it is not a list; write a list of names",
		`{"remove_tags": [["role"]]}`: "" +
			"remove_tags.0: a list: it is not a text; write a list of names",
		`{"update_nics": {}}`:  "write a list",
		`{"update_nics": [1]}`: "write a mapping",
		`{"add_nics": [{"nic_tag": "a", "ip": "192.0.2.10", "netmask": "255.255.0.0"}]}`: "" +
			"nics.0.ips.0 is the same address",
		`{"set_tags": []}`:        "write a mapping",
		`{"set_tags": {"a": {}}}`: "tags.a",
		`{"update_disks": [{"path": "/x", "size": 100}]}`: "" +
			"the guest has no item with this path",
		`[]`: "an update is a mapping",
	} {
		old := newGuest(t)
		next, changes, err := Update(old, "u", []byte(src))
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) || changes != nil ||
			len(Diff(old, next)) > 0 {
			t.Errorf("%s: %v, %v", src, changes, err)
		}
	}
}

func TestFilesystemsAndRoutes(t *testing.T) {
	const head = `{"brand": "lx", "image": "a", "nics": [{"nic_tag": "a"}], `
	for part, want := range map[string]string{
		`"filesystems": [{"source": "a", "target": "/b", "type": "lofs"}]`:                       "filesystems.0.source",
		`"filesystems": [{"source": "/a/../b", "target": "/b", "type": "lofs"}]`:                 "contains ..",
		`"filesystems": [{"source": "/a", "target": "/", "type": "lofs"}]`:                       "root of the guest",
		`"filesystems": [{"source": "/a", "target": "/b", "type": "ufs"}]`:                       "use lofs",
		`"filesystems": [{"source": "/a", "target": "/b", "type": "lofs", "options": ["fast"]}]`: "no such option",
		`"filesystems": [{"source": "/a", "target": "/b", "type": "lofs"},` +
			` {"source": "/c", "target": "/b", "type": "lofs"}]`: "same target",
		`"routes": {"x": "10.0.0.1"}`:         "not an IPv4 network",
		`"routes": {"10.0.0.0/8": "nics[1]"}`: "neither an IPv4 address nor a NIC",
		`"routes": {"10.0.0.0/8": "fe80::1"}`: "neither an IPv4 address nor a NIC",
	} {
		if _, err := Read("f", []byte(head+part+"}")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", part, err)
		}
	}
	for _, part := range []string{`"routes": {"10.0.0.0/8": "nics[0]", "10.1.0.1": "10.0.0.1"}`,
		`"filesystems": [{"source": "/a..b", "target": "/b", "type": "lofs", "options": "ro,nosuid"}]`} {
		if _, err := Read("f", []byte(head+part+"}")); err != nil {
			t.Errorf("%s: %v", part, err)
		}
	}
}

// The schema accepts what Read accepts, and refuses an unknown property.
func TestSchema(t *testing.T) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(JSONSchema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("guest.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("guest.json")
	if err != nil {
		t.Fatal(err)
	}
	for src, valid := range map[string]bool{newbox: true, "[" + newbox + "]": true,
		strings.Replace(newbox, `"ram"`, `"rma"`, 1): false, strings.Replace(newbox, "kvm", "kwm", 1): false} {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(src))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); (err == nil) != valid {
			t.Errorf("%s: %v", src, err)
		}
	}
}

func FuzzUpdate(f *testing.F) {
	f.Add([]byte(`{"update_nics": [{"mac": "02:00:00:00:00:01", "ip": ""}], "ram": 1}`))
	f.Add([]byte("set_tags: {a: b}\nremove_tags: a"))
	guests, err := Read("newbox.json", []byte(newbox))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		next, _, err := Update(guests[0], "f", src)
		if err != nil {
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
			return
		}
		if _, more, err := Update(next, "f", []byte("{}")); err != nil || len(more) > 0 {
			t.Errorf("%q: then {} changes %v, %v", src, more, err)
		}
	})
}

// A wrong netmask does not hide a wrong address.
func TestMaskAndAddress(t *testing.T) {
	_, err := Read("f", []byte(`{"brand": "lx", "image": "a",
		"nics": [{"nic_tag": "a", "ip": "10.0.0.300", "netmask": "255.0.255.0"}]}`))
	for _, want := range []string{"nics.0.netmask", "nics.0.ip"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}

// A wrong value of an update is named with its place in the file.
func TestPlaceInUpdate(t *testing.T) {
	old := Guest{Brand: Docker, Image: "a", Alias: "web"}
	Complete(&old)
	_, _, err := Update(old, "u.json", []byte("{\"alias\": 5,\n \"nic_tag\": \"x\",\n \"ram\": \"big\"}"))
	const want = `u.json:2:13: nic_tag: "x": unknown property; write it in an item of nics
u.json:1:11: alias: 5: it is a number; write a text: "5"
u.json:3:9: ram: "big": it is not a whole number; write at most nine digits`
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}
