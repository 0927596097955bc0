package manifest

import (
	_ "embed"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

// newbox is the manifest of a web page of 2015 about SmartOS, whose brackets and
// addresses the page had lost.
//
//go:embed testdata/newbox.json
var newbox string

// wrong is a list of copies of newbox with one property wrong: old is replaced by new.
//
//go:embed testdata/wrong.json
var wrong []byte

func TestNewbox(t *testing.T) {
	guests, err := Read("newbox.json", []byte(newbox))
	if err != nil {
		t.Fatal(err)
	}
	g := guests[0]
	n := g.NICs[0]
	if len(guests) != 1 || g.RAM != 256 || g.VCPUs != 2 || g.MaxPhysicalMemory != 1280 || !g.Autoboot || g.Quota != 10 ||
		!reflect.DeepEqual(n.IPs, []string{"192.0.2.10/24"}) || !reflect.DeepEqual(n.Gateways, []string{"192.0.2.1"}) ||
		!n.AllowIPSpoofing || !n.AllowDHCPSpoofing || n.AllowedIPs != nil || !g.Disks[0].Boot || g.Disks[0].Media != "disk" ||
		g.CustomerMetadata["root_authorized_keys"] != "ssh-rsa AAAAB3NzaC1y" {
		t.Errorf("%+v", g)
	}
	empty := strings.NewReplacer("192.0.2.10", "", "192.0.2.1", "", "255.255.255.0", "", `"192.0.2.53"`, `""`).
		Replace(newbox)
	if guests, err = Read("newbox.json", []byte(empty)); err != nil || guests[0].NICs[0].IPs != nil {
		t.Errorf("without addresses: %+v, %v", guests, err)
	}
}

// YAML says the same, and a list holds several guests.
func TestYAML(t *testing.T) {
	const two = "- {brand: lx, image: 'debian:12', ram: 64, tmpfs: 0}\n- brand: bhyve\n  disks: [{size: 10}]\n"
	guests, err := Read("two.yaml", []byte(two))
	if err != nil || len(guests) != 2 {
		t.Fatalf("%+v, %v", guests, err)
	}
	if g := guests[0]; g.TmpFS != 0 || g.Quota != 10 || g.MaxSwap != 256 || g.RAM != 64 {
		t.Errorf("%+v", g)
	}
	if g := guests[1]; g.Quota != 1 || g.MaxPhysicalMemory != 1536 || g.VCPUs != 1 {
		t.Errorf("%+v", g)
	}
}

// Each copy of the manifest has one property wrong.
func TestOneWrongProperty(t *testing.T) {
	var copies []struct{ Old, New, Path, Value, Reason string }
	if err := json.Unmarshal(wrong, &copies); err != nil || len(copies) < 60 {
		t.Fatalf("%d copies, %v", len(copies), err)
	}
	for _, c := range copies {
		src := strings.Replace(newbox, c.Old, c.New, 1)
		if src == newbox {
			t.Fatalf("%s does not occur", c.Old)
		}
		_, err := Read("newbox.json", []byte(src))
		p := ProblemsOf(err)
		found := false
		for _, x := range p {
			found = found || x.Path == c.Path && x.Value == c.Value && strings.Contains(x.Reason, c.Reason) && x.Line > 0 &&
				x.Allowed != ""
		}
		wrongType := strings.HasPrefix(c.Reason, "it is a ") || c.Reason == "it is empty"
		if !found || wrongType && len(p) > 1 || !fault.Is(err, fault.Invalid) { // no other property is blamed
			t.Errorf("%s: %v", c.New, err)
		}
	}
}

// A file that describes nothing is refused, and so is a name that no host can have.
func TestNothingAndNames(t *testing.T) {
	long := strings.Repeat("a.", 127) + "a"
	for src, want := range map[string]string{
		"":   "f:1:1: the file is empty; write the manifest",
		"[]": "f:1:1: the list is empty; describe a guest",
		"{brand: docker, image: a, hostname: ../x}":              `f:1:37: hostname: "../x": it is not the name of a host;`,
		"{brand: docker, image: a, hostname: a..b}":              "it is not the name of a host",
		"{brand: docker, image: a, hostname: '-a'}":              "it is not the name of a host",
		"{brand: docker, image: a, hostname: 'a b'}":             "it is not the name of a host",
		"{brand: docker, image: a, hostname: " + long + "}":      "it is not the name of a host",
		"{brand: docker, image: a, hostname: web_1.example.com}": "",
	} {
		_, err := ReadAll("f", []byte(src))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v instead of %q", src, err, want)
		}
	}
}

// A property in the wrong place gets the right one.
func TestPlaceOfProperty(t *testing.T) {
	for src, want := range map[string]string{
		`{brand: kvm, nic_tag: admin}`:                    "f:1:23: nic_tag: \"admin\": unknown property; write it in an",
		`{brand: kvm, size: 10}`:                          "write it in an item of disks",
		`{brand: kvm, disks: [{size: 10, ram: 512}]}`:     "disks.0.ram: 512: unknown property; write it beside brand",
		`{brand: lx, image: a, source: /srv}`:             "write it in an item of filesystems",
		`{brand: lx, image: a, user-script: x}`:           "write it in customer_metadata",
		`{brand: kvm, cpus: 2}`:                           `did you mean "vcpus"?`,
		`{network: a, brand: kvm}`:                        "brand: \"kvm\": unknown property; use network,",
		`{brand: kvm, nics: [{nic_tag: a, hostname: a}]}`: "write it beside brand",
	} {
		if _, err := ReadAll("f", []byte(src)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", src, err, want)
		}
	}
}

// All mistakes are reported at once, each with its place.
func TestEveryMistakeAtOnce(t *testing.T) {
	_, err := Read("g.yaml", []byte("brand: kvm\nrm: 1\nvcpus: x\nnics:\n  - {nic_tag: a, mtu: 1}\n"))
	const want = `g.yaml:2:5: rm: 1: unknown property; did you mean "ram"?
g.yaml:3:8: vcpus: "x": it is not a whole number; write at most nine digits
g.yaml:5:23: nics.0.mtu: 1: it is out of range; write 576 to 9000`
	if err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(newbox))
	f.Add([]byte("- brand: lx\n- 1\n- nics: x"))
	f.Fuzz(func(t *testing.T, src []byte) {
		if _, err := Read("f", src); err != nil && len(ProblemsOf(err)) == 0 {
			if !fault.Is(err, fault.Invalid) {
				t.Fatal(err)
			}
		}
	})
}

// A command in one text would be the name of one program. vmadm has no such property.
func TestCommandInOneText(t *testing.T) {
	for src, want := range map[string]string{
		"{brand: docker, image: a, command: sleep 1000}":     `write a list, such as ["sleep","1000"]`,
		"{brand: docker, image: a, entrypoint: 'sh,-c'}":     "it is one text",
		"{brand: docker, image: a, command: top}":            "",
		"{brand: docker, image: a, command: [sleep, 1000]}":  "",
		"{brand: docker, image: a, resolvers: '192.0.2.53'}": "",
	} {
		_, err := Read("f", []byte(src))
		if (want == "") != (err == nil) || want != "" && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", src, err, want)
		}
	}
}

// A problem that another check finds has the place of its value, and the path that Read would give it.
func TestLocate(t *testing.T) {
	const two = "- {network: a, subnet: 10.0.0.0/24}\n- brand: kvm\n  zpool: tank\n  disks: [{size: 1}]\n"
	d, err := ReadAll("f", []byte(two))
	if err != nil {
		t.Fatal(err)
	}
	got := d.Locate(0, Problems{{Path: "zpool", Reason: "x"}, {Path: "disks.0.model", Reason: "y"}}).Error()
	const want = "f:3:10: 1.zpool: x\nf:4:11: 1.disks.0.model: y"
	if got != want {
		t.Errorf("%s instead of %s", got, want)
	}
}
