package manifest

import (
	"strings"
	"testing"

	"bakeoff/base/fault"
)

const pooled = `schema: bakeoff/lab/v1
name: pooled
hosts:
  box: {pool: epyc, count: 6, uplink: eth1}
  client: {pool: load, uplink: eth2}
generator: client
contenders: [{name: a, driver: host, host: box}, {name: b, driver: host, host: box}]
baseline: a
cells: [{name: s, workload: crypto, params: {algorithm: sha256}}]
`

func TestHostsOfPoolsAreBound(t *testing.T) {
	l, err := Parse("lab.yaml", []byte(pooled), catalogue(), "")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(l.Unbound(), " "); got != "box client" || l.Hosts["box"].Count != 6 {
		t.Errorf("unbound: %s, count %d", got, l.Hosts["box"].Count)
	}
	for name, address := range map[string]string{"box": "local", "client": "root@bk2"} {
		if err := l.Bind(name, address); err != nil {
			t.Fatal(err)
		}
	}
	if l.Contenders[1].Host != "local" || l.Hosts["local"].Uplink != "eth1" || l.Hosts["client"].SSH != "root@bk2" ||
		l.Generator != "client" || len(l.Unbound()) != 0 {
		t.Errorf("%+v", l)
	}
	if err := l.Bind("box", "local"); !fault.Is(err, fault.Invalid) {
		t.Errorf("a second time: %v", err)
	}
}

func TestHostsOfPoolsHaveNoAddress(t *testing.T) {
	for old, want := range map[string]string{
		"pool: load, uplink: eth2": `host "client" has no address`,
		"pool: epyc, count: 6":     `host "box" has a count, but no pool`,
		"count: 6":                 `host "box" comes from a pool and cannot have the key ssh`,
	} {
		replacement := map[string]string{"pool: load, uplink: eth2": "uplink: eth2",
			"pool: epyc, count: 6": "ssh: a, count: 6", "count: 6": "ssh: a"}[old]
		_, err := Parse("lab.yaml", []byte(strings.Replace(pooled, old, replacement, 1)), catalogue(), "")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", old, err, want)
		}
	}
}
