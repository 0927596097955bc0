package vm

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"strings"
	"testing"

	"bakeoff/provision/vm/manifest"
	"bakeoff/reach/conn/local"
)

// mapStore keeps metadata in memory.
type mapStore struct{ manifest.Guest }

func (s *mapStore) guest() manifest.Guest { return s.Guest }

func (s *mapStore) set(key string, value *string) error {
	if value == nil {
		delete(s.CustomerMetadata, key)
		return nil
	}
	s.CustomerMetadata[key] = *value
	return nil
}

func described() manifest.Guest {
	return manifest.Guest{UUID: "4d5f0b5e-5f4e-4f0e-8a56-0a1b2c3d4e5f", Brand: manifest.KVM, Alias: "box", RAM: 512,
		NICs:                       []manifest.NIC{{MAC: "02:00:00:00:00:01", NicTag: "a", IPs: []string{"192.0.2.10/24"}}},
		Resolvers:                  []string{"192.0.2.1"},
		Routes:                     map[string]any{"198.51.100.0/24": "nics[0]", "203.0.113.0/24": "192.0.2.9"},
		CustomerMetadata:           map[string]any{"greeting": "hello", "number": json.Number("7"), "x_pw": "not this one"},
		InternalMetadata:           map[string]any{"root_pw": "secret", "ns:key": "inside", "operator-script": "#!/bin/sh"},
		InternalMetadataNamespaces: []string{"ns"}}
}

// client speaks version 2 as its specification says it.
type client struct {
	net.Conn
	in *bufio.Reader
}

func (c client) line(t *testing.T, text string) string {
	t.Helper()
	if _, err := io.WriteString(c, text+"\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := c.in.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(answer, "\n")
}

func (c client) do(t *testing.T, code, payload string) (string, string) {
	t.Helper()
	body := "0badcafe " + code
	if payload != "" {
		body += " " + base64.StdEncoding.EncodeToString([]byte(payload))
	}
	answer := c.line(t, fmt.Sprintf("V2 %d %08x %s", len(body), crc32.ChecksumIEEE([]byte(body)), body))
	f := strings.SplitN(answer, " ", 4)
	if len(f) != 4 || f[0] != "V2" || f[1] != fmt.Sprint(len(f[3])) ||
		f[2] != fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(f[3]))) || !strings.HasPrefix(f[3], "0badcafe ") {
		t.Fatalf("the answer is %q", answer)
	}
	word, value, _ := strings.Cut(strings.TrimPrefix(f[3], "0badcafe "), " ")
	b, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		t.Fatal(err)
	}
	return word, string(b)
}

func TestMetadataProtocol(t *testing.T) {
	ours, theirs := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serveMetadata(theirs, &mapStore{described()}) }()
	c := client{ours, bufio.NewReader(ours)}
	for line, want := range map[string]string{"": "invalid command", "HELLO": "invalid command", "NEGOTIATE V3": "FAILURE",
		"NEGOTIATE V2": "V2_OK", "GET nothing": "NOTFOUND", strings.Repeat("x", maxFrame+10): "invalid command"} {
		if got := c.line(t, line); got != want {
			t.Errorf("%.40q: %q instead of %q", line, got, want)
		}
	}
	// What a console prints gets no answer; a request that ends like its lines does.
	if _, err := io.WriteString(c, "\r\nerror: no such device.\r\n\x1b[2J\x1b[01;01HBdsDxe: loading\n"); err != nil {
		t.Fatal(err)
	}
	if got := c.line(t, "GET nothing\r"); got != "NOTFOUND" {
		t.Errorf("after lines of a console: %q", got)
	}
	if got := c.line(t, "GET greeting"); got != "SUCCESS" {
		t.Errorf("version 1: %q", got)
	}
	for _, want := range []string{"hello\n", ".\n"} {
		if got, err := c.in.ReadString('\n'); got != want || err != nil {
			t.Errorf("version 1: %q, %v", got, err)
		}
	}
	pair := func(k, v string) string {
		return base64.StdEncoding.EncodeToString([]byte(k)) + " " + base64.StdEncoding.EncodeToString([]byte(v))
	}
	for _, s := range []struct{ code, payload, word, value string }{
		{"GET", "greeting", "SUCCESS", "hello"}, {"GET", "number", "SUCCESS", "7"}, {"GET", "none", "NOTFOUND", ""},
		{"GET", "root_pw", "SUCCESS", "secret"}, {"GET", "x_pw", "NOTFOUND", ""}, {"GET", "ns:key", "SUCCESS", "inside"},
		{"GET", "operator-script", "NOTFOUND", ""}, {"GET", "sdc:operator-script", "SUCCESS", "#!/bin/sh"},
		{"GET", "sdc:uuid", "SUCCESS", described().UUID}, {"GET", "sdc:hostname", "SUCCESS", "box"},
		{"GET", "sdc:ram", "SUCCESS", "512"}, {"GET", "sdc:resolvers", "SUCCESS", `["192.0.2.1"]`},
		{"GET", "sdc:routes", "SUCCESS", `[{"linklocal":true,"dst":"198.51.100.0/24","gateway":"192.0.2.10"},` +
			`{"linklocal":false,"dst":"203.0.113.0/24","gateway":"192.0.2.9"}]`},
		{"GET", "sdc:datacenter_name", "NOTFOUND", ""}, {"GET", "sdc:internal_metadata", "NOTFOUND", ""},
		{"KEYS", "", "SUCCESS", "greeting\nns:key\nnumber\nroot_pw\n"},
		{"PUT", pair("state", "a b\nc"), "SUCCESS", ""}, {"GET", "state", "SUCCESS", "a b\nc"},
		{"PUT", pair("empty", ""), "SUCCESS", ""}, {"GET", "empty", "SUCCESS", ""},
		{"PUT", "x", "FAILURE", "a PUT request must contain a key and a value, each in base64"},
		{"PUT", pair("bytes", "\xff"), "FAILURE", "keys and values must be text in UTF-8"},
		{"PUT", pair("sdc:uuid", "x"), "FAILURE", "the guest cannot change the keys of sdc"},
		{"DELETE", "ns:key", "FAILURE", "the guest cannot change the keys of ns"},
		{"DELETE", "state", "SUCCESS", ""}, {"DELETE", "state", "SUCCESS", ""}, {"GET", "state", "NOTFOUND", ""},
		{"PUT", pair("", "x"), "FAILURE", `"" is not a key`}, {"EXEC", "x", "FAILURE", "unknown command EXEC"},
	} {
		if word, value := c.do(t, s.code, s.payload); word != s.word || value != s.value {
			t.Errorf("%s %q: %s %q", s.code, s.payload, word, value)
		}
	}
	// A damaged frame gets no answer, and the next one is understood.
	if _, err := io.WriteString(c, "V2 21 265ae1d9 dc4fae17 SUCCESS W10=\n"); err != nil {
		t.Fatal(err)
	}
	if word, _ := c.do(t, "GET", "greeting"); word != "SUCCESS" {
		t.Errorf("after a damaged frame: %s", word)
	}
	ours.Close()
	if err := <-ended; err != nil && !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
}

// The frame of the specification's example.
func TestFrameOfTheSpecification(t *testing.T) {
	const text = "V2 21 265ae1d8 dc4fae17 SUCCESS W10="
	f, err := parseFrame(strings.TrimPrefix(text, "V2 "))
	if err != nil || f != (frame{"dc4fae17", "SUCCESS", "[]"}) || f.String() != text {
		t.Errorf("%+v (%s), %v", f, f, err)
	}
}

// What a guest writes is in its manifest, is bounded, and survives.
func TestGuestWritesMetadata(t *testing.T) {
	s := &Store{State: t.TempDir(), Host: local.Conn{}}
	m := described()
	manifest.Complete(&m)
	m.Routes, m.Kernel = nil, "/k"
	g, err := s.Create(t.Context(), m, Boot{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &portStore{ctx: t.Context(), store: s, known: g.Guest}
	value, long := "yes", strings.Repeat("x", maxMetadata)
	err = errors.Join(p.set("ready", &value), p.set("new_pw", &value), p.set("greeting", nil), p.set("none", nil))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.set("long", &long); err == nil {
		t.Error("metadata has no bound")
	}
	now := p.guest()
	customer, internal := now.CustomerMetadata, now.InternalMetadata
	if customer["ready"] != "yes" || internal["new_pw"] != "yes" || customer["greeting"] != nil {
		t.Errorf("%v, %v", customer, internal)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	held, err := g.change(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Release()
	p.ctx = ctx // the guest has ended while it waits for a command
	if err := p.set("late", &value); err == nil {
		t.Error("a guest that has ended changed its metadata")
	}
}

func FuzzMetadataFrame(f *testing.F) {
	for _, s := range []string{"V2 21 265ae1d8 dc4fae17 SUCCESS W10=", "V2 12 00000000 0badcafe KEYS", "NEGOTIATE V2",
		"GET sdc:nics", "", "V2 ", frame{"0badcafe", "PUT", "Zg== Zg=="}.String(),
		frame{"0badcafe", "GET", "sdc:nics"}.String(),
		frame{"0badcafe", "DELETE", "\n"}.String()} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		store := &mapStore{described()}
		answer := answerMetadata(line, store)
		if rest, ok := strings.CutPrefix(answer, "V2 "); ok {
			if _, err := parseFrame(rest); err != nil {
				t.Errorf("%q is answered with %q: %v", line, answer, err)
			}
		}
		for key := range store.CustomerMetadata {
			if strings.HasPrefix(key, "sdc:") {
				t.Errorf("%q made the key %q", line, key)
			}
		}
	})
}
