package service

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
)

const web = `schema: bakeoff/service/v1
base: debian:bookworm
packages: [nginx]
users:
  - {name: site, id: 1000, home: /srv}
files:
  - {from: site, to: /srv/site, owner: site}
  - {text: "hello\n", to: /etc/motd, mode: 0640}
build:
  - nginx -t
  - [chmod, "700", /srv]
environment: {B: 2, A: one}
remove: [/usr/share/doc]
run: [nginx, -g, daemon off;]
user: site:site
folder: /srv
ports: [80, 53/udp]
labels: {team: red}
size: 1GiB
`

func TestYAML(t *testing.T) {
	d, err := ParseYAML("a/service.yaml", "web", []byte(web))
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"A=one", "B=2"}
	want := &Definition{Name: "web", Base: "debian:bookworm", Packages: []string{"nginx"},
		Users: []User{{"site", 1000, "/srv", "/usr/sbin/nologin"}},
		Steps: []Step{
			{Where: "service.yaml:7", Text: "copy to /srv/site", Copy: &Copy{From: "site", To: "/srv/site", Owner: "site"}},
			{Where: "service.yaml:8", Text: "copy to /etc/motd", Copy: &Copy{Text: "hello\n", To: "/etc/motd", Mode: 0o640}},
			{Where: "service.yaml:10", Text: "nginx -t", Run: &Run{Argv: []string{"/bin/sh", "-ec", "nginx -t"}, Env: env}},
			{Where: "service.yaml:11", Text: `["chmod" "700" "/srv"]`,
				Run: &Run{Argv: []string{"chmod", "700", "/srv"}, Env: env}},
		},
		Remove: []string{"/usr/share/doc"}, Cmd: []string{"nginx", "-g", "daemon off;"}, Env: env, User: "site:site",
		Dir: "/srv", Ports: []string{"80/tcp", "53/udp"}, Labels: map[string]string{"team": "red"}, Size: 1 << 30}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("got  %s\nwant %s", show(d), show(want))
	}
}

func show(d any) string {
	b, _ := json.Marshal(d)
	return string(b)
}

const page = `# a comment
ARG SUITE=bookworm
FROM debian:${SUITE} AS base
ARG WHO=world UNSET
ENV GREETING="hello $WHO" \
    # in the middle
    PATH=/opt:/bin
LABEL "a b"='$c'
WORKDIR /srv
workdir app
COPY --chown=1000:0 --chmod=755 a.conf ./b "c d" ./
COPY ["x y", "/z"]
USER ${NOBODY:-nobody}
RUN echo $GREETING
RUN --network=default ["true", "x"]
EXPOSE 80 443/tcp 80/tcp
ENTRYPOINT ["/bin/app"]
CMD ["-v"]
`

func TestContainerfile(t *testing.T) {
	d, err := ParseContainerfile("d/Containerfile", "app", []byte(page), map[string]string{"WHO": "you"})
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"GREETING=hello you", "PATH=/opt:/bin"}
	step := func(line int, text string, s Step) Step {
		s.Where, s.Text = fmt.Sprintf("Containerfile:%d", line), text
		return s
	}
	into := func(from string) Step {
		return step(11, `COPY --chown=1000:0 --chmod=755 a.conf ./b "c d" ./`,
			Step{Copy: &Copy{From: from, To: "/srv/app", Into: true, Mode: 0o755, Owner: "1000:0"}})
	}
	run := func(network bool, argv ...string) Step {
		return Step{Run: &Run{Argv: argv, Env: append(env[:2:2], "UNSET=", "WHO=you"), User: "nobody", Dir: "/srv/app",
			Network: network}}
	}
	want := &Definition{Name: "app", Base: "debian:bookworm", Env: env, User: "nobody", Dir: "/srv/app",
		Steps: []Step{step(9, "WORKDIR /srv", Step{Folder: "/srv"}), step(10, "WORKDIR app", Step{Folder: "/srv/app"}),
			into("a.conf"), into("b"), into("c d"),
			step(12, `COPY ["x y", "/z"]`, Step{Copy: &Copy{From: "x y", To: "/z"}}),
			step(14, "RUN echo $GREETING", run(false, "/bin/sh", "-ec", "echo $GREETING")),
			step(15, `RUN ["true", "x"]`, run(true, "true", "x"))},
		Ports: []string{"80/tcp", "443/tcp"}, Labels: map[string]string{"a b": "$c"}, Entrypoint: []string{"/bin/app"},
		Cmd: []string{"-v"}}
	if !reflect.DeepEqual(d, want) {
		t.Errorf("got  %s\nwant %s", show(d), show(want))
	}
	if p := d.Program(); !slices.Equal(p, []string{"/bin/app", "-v"}) {
		t.Errorf("the program is %q", p)
	}
}

// Every mistake is named with its line and what to write instead.
func TestMistakes(t *testing.T) {
	head := "schema: bakeoff/service/v1\n"
	for _, tt := range []struct{ file, src, want string }{
		{"service.yaml", head + "base: scratch\nbild: [x]",
			`service.yaml:3:1: unknown key "bild" in the file; did you mean "build"?`},
		{"service.yaml", "base: scratch", "service.yaml:1:1: this is not a service; begin with `schema: bakeoff/service/v1`"},
		{"service.yaml", head, "1:1: the service has no base"},
		{"service.yaml", head + "base: /tmp", "2:7: "},
		{"service.yaml", head + "base: scratch\npackages: [x1]", "scratch has no packages"},
		{"service.yaml", head + "base: alpine:3.20\npackages: [x1]", "bakeoff installs no packages in"},
		{"service.yaml", head + "base: unpacked:debian:bookworm", "has no packages to unpack"},
		{"service.yaml", head + "base: scratch\nfiles: [{from: ../x, to: /y}]", `3:16: from is "../x"`},
		{"service.yaml", head + "base: scratch\nfiles: [{from: x, to: y}]", `to is "y"`},
		{"service.yaml", head + "base: scratch\nfiles: [{to: /y}]", "neither or both of from and text"},
		{"service.yaml", head + "base: scratch\nfiles: [{from: a, to: /y, mode: 9}]", `mode is "9"`},
		{"service.yaml", head + "base: scratch\nusers: [{name: A b, id: x}]", "is not the name of a user"},
		{"service.yaml", head + "base: scratch\nports: [70000]", `"70000" is not a port`},
		{"service.yaml", head + "base: scratch\nports: [0]", `"0" is not a port`},
		{"service.yaml", head + "base: scratch\nrun: {a: b}", "a command is a mapping"},
		{"service.yaml", head + "base: scratch\nsize: 2", `size is "2"`},
		{"service.yaml", head + "base: scratch\nenvironment: {a-b: c}", `"a-b" is not the name of a variable`},
		{"service.yaml", head + "base: scratch\nname: A", `"A" is not the name of a service`},
		{"Containerfile", "", "1:1: the file has no FROM; begin with FROM and an image"},
		{"Containerfile", "RUN x", "1:1: RUN stands before FROM"},
		{"Containerfile", "FROM scratch\n\nADD x /", "3:1: bakeoff does not read the instruction ADD; use COPY"},
		{"Containerfile", "FROM scratch\nRUNN x", `2:1: unknown instruction "RUNN"; did you mean "RUN"?`},
		{"Containerfile", "FROM scratch\nRUN", "RUN has no value"},
		{"Containerfile", "FROM scratch\nFROM scratch", "2:1: bakeoff reads one stage"},
		{"Containerfile", "FROM --platform=x scratch", "bakeoff does not read --platform of FROM"},
		{"Containerfile", "FROM scratch\nRUN --mount=type=cache x", "does not read --mount of RUN; use --network"},
		{"Containerfile", "FROM scratch\nRUN --network=mine x", `the network of RUN is "mine"`},
		{"Containerfile", "FROM scratch\nRUN <<EOF", "bakeoff reads no here-documents"},
		{"Containerfile", "FROM scratch\nCOPY a* /b", "bakeoff reads no patterns"},
		{"Containerfile", "FROM scratch\nCOPY a b /c", "is not a folder"},
		{"Containerfile", "FROM scratch\nCOPY ../a /c", `from is "../a"`},
		{"Containerfile", "FROM scratch\nCOPY --from=x a /c", "does not read --from of COPY; use --chown or --chmod"},
		{"Containerfile", "FROM scratch\nENV A 1", `"A" is not NAME=VALUE; write ENV NAME=VALUE`},
		{"Containerfile", "FROM scratch\nENV A=\"1", "a quote is not closed"},
		{"Containerfile", "FROM scratch\nENV A=${B:?x}", "bakeoff cannot read what follows ${B"},
		{"Containerfile", "FROM scratch\nCMD [a]", "the list after CMD is not JSON"},
		{"Containerfile", "FROM scratch\nEXPOSE 80-90", `"80-90" is not a port`},
		{"Containerfile", "# escape=`\nFROM scratch", "1:1: bakeoff does not read escape="},
		{"Containerfile", "FROM scratch\nRUN a \\\n\\\n  && \xff", "is not UTF-8"},
		{"Containerfile", "FROM scratch # x", "FROM has 3 words"},
	} {
		var err error
		if tt.file == YAMLFile {
			_, err = ParseYAML(tt.file, "x", []byte(tt.src))
		} else {
			_, err = ParseContainerfile(tt.file, "x", []byte(tt.src), nil)
		}
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q:\n got  %v\n want %s", tt.src, err, tt.want)
		}
	}
	_, err := ParseContainerfile("Containerfile", "x", []byte("FROM scratch"), map[string]string{"A": "1"})
	if err == nil || !strings.Contains(err.Error(), `the file has no ARG "A"`) {
		t.Errorf("an argument that the file does not have: %v", err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "my-app")
	put := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Load(at, nil); !fault.Is(err, fault.NotFound) {
		t.Errorf("a folder that does not exist: %v", err)
	}
	put("readme", "")
	if _, err := Load(at, nil); !fault.Is(err, fault.Invalid) {
		t.Errorf("a folder without a definition: %v", err)
	}
	put("Containerfile", "FROM scratch\n")
	if d, err := Load(at, nil); err != nil || d.Name != "my-app" {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := Load(t.TempDir(), nil); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "it has no service.yaml, Containerfile or Dockerfile") {
		t.Errorf("an empty folder: %v", err)
	}
	put(".dockerignore", "x")
	if _, err := Load(at, nil); !fault.Is(err, fault.Unsupported) {
		t.Errorf(".dockerignore was ignored: %v", err)
	}
	put("service.yaml", web)
	if _, err := Load(at, nil); !fault.Is(err, fault.Invalid) ||
		!strings.Contains(err.Error(), "has service.yaml and Containerfile, and bakeoff reads only one such file") {
		t.Errorf("two definitions: %v", err)
	}
}

// The schema describes every key and nothing else.
func TestSchema(t *testing.T) {
	var s struct {
		Properties map[string]struct {
			Description string
			Items       struct {
				Properties map[string]struct{ Description string }
			}
		}
	}
	if err := json.Unmarshal(JSONSchema(), &s); err != nil {
		t.Fatal(err)
	}
	n := 0
	for key, p := range s.Properties {
		n++
		if p.Description == "" {
			t.Errorf("%s has no description", key)
		}
		for sub, q := range p.Items.Properties {
			n++
			if q.Description == "" {
				t.Errorf("%s of %s has no description", sub, key)
			}
		}
	}
	if n != len(described) {
		t.Errorf("the schema has %d keys, and %d are described", n, len(described))
	}
}

func FuzzYAML(f *testing.F) {
	f.Add([]byte(web))
	f.Add([]byte("schema: bakeoff/service/v1\nbase: scratch\n"))
	f.Fuzz(func(t *testing.T, src []byte) {
		d, err := ParseYAML("service.yaml", "x", src)
		holds(t, d, err)
	})
}

func FuzzContainerfile(f *testing.F) {
	f.Add([]byte(page))
	f.Add([]byte("FROM scratch\nCOPY a ${b:-c}/\nENV A='x' B=\"$A\"\n"))
	f.Add([]byte("ARG A\\\n=1\nFROM $A"))
	f.Fuzz(func(t *testing.T, src []byte) {
		d, err := ParseContainerfile("Containerfile", "x", src, nil)
		holds(t, d, err)
	})
}

// holds checks what the builder relies on.
func holds(t *testing.T, d *Definition, err error) {
	if err != nil {
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("an error of another kind: %v", err)
		}
		return
	}
	if d == nil || d.Name == "" || d.Base == "" || len(d.Steps) > maxSteps {
		t.Fatalf("%+v", d)
	}
	for _, s := range d.Steps {
		kinds := 0
		if s.Copy != nil {
			kinds++
			if !strings.HasPrefix(s.Copy.From, Material) && s.Copy.From != "" && !filepath.IsLocal(s.Copy.From) ||
				!filepath.IsAbs(s.Copy.To) {
				t.Errorf("a copy leaves its folder: %+v", s.Copy)
			}
		}
		if s.Run != nil {
			kinds++
			if len(s.Run.Argv) == 0 {
				t.Error("a step without a program")
			}
		}
		if s.Folder != "" {
			kinds++
		}
		if kinds != 1 || s.Where == "" {
			t.Errorf("a step of %d kinds: %+v", kinds, s)
		}
	}
}
