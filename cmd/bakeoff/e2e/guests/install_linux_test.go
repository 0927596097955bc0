package guests

import (
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"bakeoff/reach/conn/sshtest"
)

// TestInstallHost reaches the SSH servers of guests by vm:NAME: one in a network, and one by a
// published port. A real sshd outside the guests stands in for those in them; relays in the networks
// of the guests lead to it. It is the machine whose facts bakeoff prints.
func TestInstallHost(t *testing.T) {
	h := networkHome(t)
	server := sshtest.Start(t)
	port := sshtest.FreePort(t)
	dir := box(t, h, "box", sleeps)
	do(t, h, "network", "create", "back", "--subnet", "10.9.0.0/24")
	do(t, h, "create", "-f", file(t, "h.yaml", fmt.Sprintf(`
- {brand: docker, alias: one, image: %[1]s, ram: 64, nics: [{nic_tag: back, ips: 10.9.0.10/24}]}
- {brand: docker, alias: two, image: %[1]s, ram: 64, ports: ["127.0.0.1:%[2]d:22"]}
`, dir, port)))
	config, err := os.ReadFile(server.Config)
	if err != nil {
		t.Fatal(err)
	}
	of := func(key string) string {
		return regexp.MustCompile(`(?m)^ *` + key + ` (.*)$`).FindStringSubmatch(string(config))[1]
	}
	known, err := os.ReadFile(strings.Trim(of("UserKnownHostsFile"), `"`))
	if err != nil {
		t.Fatal(err)
	}
	key := strings.Fields(strings.Split(string(known), "\n")[1])[1:]
	var keys strings.Builder
	for _, name := range []string{"one", "two"} {
		uuid := guest(t, h, name).UUID
		fmt.Fprintln(&keys, "bakeoff-"+uuid, key[0], key[1])
		relay(t, "bo-vm-"+uuid, "127.0.0.1:"+of("Port"))
	}
	hosts := file(t, "known", keys.String())
	h.Env = append(h.Env, "BAKEOFF_SSH_CONFIG="+file(t, "ssh", fmt.Sprintf("Host *\n  IdentityFile %s\n"+
		"  IdentitiesOnly yes\n  UserKnownHostsFile %s\n  GlobalKnownHostsFile none\n", of("IdentityFile"), hosts)))
	probe := func(host string, more ...string) (string, string, int) {
		return h.Bakeoff(t, limit, append([]string{"install", "probe", "--host", host}, more...)...)
	}
	for _, host := range []string{"root@vm:one", "vm:two", "root@vm:" + guest(t, h, "two").UUID} {
		if out, errs, code := probe(host); code != 0 || !strings.Contains(out, `"ram_bytes"`) {
			t.Errorf("%s: exit code %d\n%s%s", host, code, out, errs)
		}
	}
	for _, c := range []struct {
		words string
		args  []string
	}{
		{"no guest", []string{"vm:three"}},
		{"leave --port out", []string{"vm:one", "--port", "22"}},
	} {
		if out, errs, code := probe(c.args[0], c.args[1:]...); code == 0 || !strings.Contains(errs, c.words) {
			t.Errorf("%q: exit code %d, want %s\n%s%s", c.args, code, c.words, out, errs)
		}
	}
	do(t, h, "stop", "two", "--force")
	if _, errs, code := probe("vm:two"); code == 0 || !strings.Contains(errs, "bakeoff vm start") {
		t.Errorf("a guest that is stopped: exit code %d\n%s", code, errs)
	}
	removeNetworks(t, h)
}

// relay answers at port 22 in a network namespace, for a server at an address outside.
func relay(t *testing.T, ns, to string) {
	t.Helper()
	l := within(t, ns, func() (net.Listener, error) { return net.Listen("tcp", ":22") })
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(out, in)
				out.Close()
			}()
			go func() {
				_, _ = io.Copy(in, out)
				in.Close()
			}()
		}
	}()
}
