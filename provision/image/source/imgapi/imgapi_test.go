package imgapi

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"bakeoff/base/fault"
	"bakeoff/base/name"
	"bakeoff/provision/image/source"
	"bakeoff/provision/image/source/sourcetest"
)

const (
	zone  = "01b2c898-945f-11e1-a523-af1afbe22822"
	lower = "6a1d1c2e-0000-11e5-8557-6b43e0a88b38"
	upper = "6a1d1c2e-0001-11e5-8557-6b43e0a88b38"
	file  = "stands for a layer"
)

func sum(text string) string {
	s := sha1.Sum([]byte(text))
	return hex.EncodeToString(s[:])
}

// dataset is the example of the documentation of IMGAPI.
var dataset = `{"v":2,"uuid":"` + zone + `","owner":"352971aa-31ba-496c-9ade-a379feaecd52","name":"smartos",
"version":"1.6.3","state":"active","disabled":false,"public":true,"published_at":"2012-05-02T15:14:45.805Z",
"type":"zone-dataset","os":"smartos","files":[{"sha1":"97f20b32c2016782257176fb58a35e5044f05840","size":46271847,
"compression":"bzip2"}],"description":"Base template to build other templates on",
"requirements":{"networks":[{"name":"net0","description":"public"}]}}`

func layer(uuid, name, origin string) string {
	return fmt.Sprintf(`{"v":2,"uuid":%q,"name":%q,"version":"1","state":"active","published_at":"2015-08-03T16:49:24Z",
"type":"docker","os":"linux","origin":%q,"files":[{"sha1":%q,"size":%d,"compression":"gzip"}]}`, uuid, name, origin,
		sum(file), len(file))
}

func image(uuid, name, origin string) source.Image {
	return source.Image{ID: uuid, UUID: uuid, Name: name, Version: "1", OS: "linux", Arch: "amd64", Type: "docker",
		Published: "2015-08-03T16:49:24Z", Origin: origin, Size: int64(len(file)), Layered: true, Files: []source.File{{
			Name: name + "-1", URL: "$SERVER/images/" + uuid + "/file", Size: int64(len(file)), Sum: "sha1:" + sum(file)}}}
}

func Test(t *testing.T) {
	gone := strings.NewReplacer(lower, "6a1d1c2e-0002-11e5-8557-6b43e0a88b38", "active", "unactivated").
		Replace(layer(lower, "gone", ""))
	sourcetest.Run(t, sourcetest.Case{Source: Source{},
		Documents: map[string]string{
			"/images": "[" + dataset + "," + layer(lower, "lower", "") + "," +
				layer(upper, "upper", lower) + "," + gone + "]",
			"/images/" + zone:  dataset,
			"/images/" + lower: layer(lower, "lower", ""),
			"/images/" + upper: layer(upper, "upper", lower)},
		Files: map[string]string{"/images/" + lower + "/file": file, "/images/" + upper + "/file": file},
		Want: []source.Image{{ID: zone, UUID: zone, Name: "smartos", Version: "1.6.3", OS: "illumos", Arch: "amd64",
			Type: "zone-dataset", Description: "Base template to build other templates on", Published: "2012-05-02T15:14:45Z",
			Size: 46271847, Caveat: source.Unsure, Files: []source.File{{Name: "smartos-1.6.3", Size: 46271847,
				URL: "$SERVER/images/" + zone + "/file", Sum: "sha1:97f20b32c2016782257176fb58a35e5044f05840"}}},
			image(lower, "lower", ""), image(upper, "upper", lower)}})
}

func TestChains(t *testing.T) {
	s := sourcetest.Start(t, sourcetest.Case{Source: Source{}, Documents: map[string]string{
		"/images/" + lower: layer(lower, "lower", ""),
		"/images/" + upper: layer(upper, "upper", lower),
		"/images/" + zone:  layer(zone, "round", zone)}})
	chain, err := source.Chain(t.Context(), Source{}, sourcetest.Client(), s.Address(), upper)
	if err != nil || len(chain) != 2 || chain[0].ID != lower || chain[1].ID != upper {
		t.Errorf("%+v, %v", chain, err)
	}
	_, err = source.Chain(t.Context(), Source{}, sourcetest.Client(), s.Address(), zone)
	if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "form a loop") {
		t.Errorf("%v", err)
	}
}

func TestParse(t *testing.T) {
	for _, change := range [][2]string{{zone, "../../x"}, {"46271847", "-1"}, {"46271847", `"many"`},
		{"97f20b32", "../"}, {`"smartos"`, `""`}, {`"owner":"352971aa-31ba-496c-9ade-a379feaecd52"`, `"origin":"x"`}} {
		text := strings.Replace(dataset, change[0], change[1], 1)
		if i, err := Parse([]byte(text), "x"); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %+v, %v", change[1], i, err)
		}
	}
	for change, want := range map[string]string{`"disabled":true`: "it is disabled",
		`"state":"unactivated"`: "its state is "} {
		key, _, _ := strings.Cut(change, ":")
		text := regexp.MustCompile(key+`:[^,]*`).ReplaceAllString(dataset, change)
		if i, err := Parse([]byte(text), "x"); err != nil || !strings.HasPrefix(i.Refused, want) {
			t.Errorf("%s: %+v, %v", change, i, err)
		}
	}
	i, err := Parse([]byte(strings.Replace(dataset, `"files":[`, `"other":[`, 1)), "x")
	if err != nil || i.Refused != "it has no file" {
		t.Errorf("%+v, %v", i, err)
	}
}

// A server answers with at most 1000 images, from those on that were published with the marker. Some servers
// know no marker.
func TestPages(t *testing.T) {
	var all []string
	for n := range 2205 {
		all = append(all, layer(fmt.Sprintf("6a1d1c2e-%04d-11e5-8557-6b43e0a88b38", n), "x", ""))
	}
	for name, x := range map[string]struct {
		from  func(n int) int // the first image of the answer to marker n
		limit int
		want  int
		warns bool
	}{
		"pages that repeat images": {func(n int) int { return n - 3 }, pageSize, len(all), false},
		"no marker":                {func(int) int { return 0 }, pageSize, pageSize, true},
		"no limit":                 {func(int) int { return 0 }, len(all), len(all), false},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			from := 0
			if marker := r.URL.Query().Get("marker"); marker != "" {
				from = x.from(slices.IndexFunc(all, func(text string) bool { return strings.Contains(text, marker) }))
			}
			fmt.Fprintf(w, "[%s]", strings.Join(all[from:min(from+x.limit, len(all))], ","))
		}))
		c, warns := sourcetest.Client(), false
		c.Warn = func(string) { warns = true }
		got, err := (Source{}).Images(t.Context(), c, s.URL)
		if s.Close(); err != nil || len(got) != x.want || warns != x.warns {
			t.Errorf("%s: %d images, %v, a warning: %v; want %d, %v", name, len(got), err, warns, x.want, x.warns)
		}
	}
}

// One manifest that cannot be read does not hide the others.
func TestOneDamaged(t *testing.T) {
	for name, bad := range map[string]string{
		"the manifest of " + upper: strings.Replace(layer(upper, "upper", lower), fmt.Sprint(`"size":`, len(file)),
			`"size":"many"`, 1),
		`the manifest of "nameless"`:     strings.Replace(layer(upper, "nameless", ""), `"`+upper+`"`, "7", 1),
		"manifest 1":                     `[]`,
		"the size or the SHA-1":          strings.Replace(layer(upper, "upper", ""), sum(file), "", 1),
		`"` + upper[1:] + `" is not a`:   layer(upper[1:], "upper", ""),
		"there is no name or no version": layer(upper, "", ""),
	} {
		s := sourcetest.Start(t, sourcetest.Case{Source: Source{}, Documents: map[string]string{
			"/images": "[" + bad + "," + layer(lower, "lower", "") + "]"}})
		var warnings []string
		c := sourcetest.Client()
		c.Warn = func(text string) { warnings = append(warnings, text) }
		all, err := Source{}.Images(t.Context(), c, s.Address())
		if err != nil || len(all) != 1 || all[0].ID != lower || len(warnings) != 1 || !strings.Contains(warnings[0], name) {
			t.Errorf("%s: %+v, %q, %v", name, all, warnings, err)
		}
		alone := sourcetest.Start(t, sourcetest.Case{Source: Source{}, Documents: map[string]string{
			"/images": "[" + bad + "]"}})
		if _, err := (Source{}).Images(t.Context(), c, alone.Address()); !fault.Is(err, fault.Invalid) {
			t.Errorf("%s, alone: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(dataset))
	f.Add([]byte(layer(upper, "x", lower)))
	f.Add([]byte(`{"uuid":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := Parse(b, "https://host")
		all, damaged := parseList([]json.RawMessage{b}, "https://host")
		for _, err := range append(damaged, err) {
			if err != nil && !fault.Is(err, fault.Invalid) {
				t.Errorf("%v", err)
			}
		}
		if err == nil {
			all = append(all, i)
		}
		for _, i := range all {
			if !name.ValidUUID(i.ID) || i.Origin != "" && !name.ValidUUID(i.Origin) || i.Refused == "" &&
				(len(i.Files) != 1 || !source.ValidSum(i.Files[0].Sum) || i.Size <= 0) {
				t.Errorf("%+v", i)
			}
		}
	})
}

// What is only shown may have any type, and a manifest that is left out says why without
// the types of Go.
func TestTypesOfMembers(t *testing.T) {
	const described = `"description":"Base template to build other templates on"`
	for name, x := range map[string]struct{ from, to, want string }{
		"a description that is a number": {described, `"description":5`, ""},
		"a time that is a number":        {`"published_at":"2012-05-02T15:14:45.805Z"`, `"published_at":1335971685`, ""},
		"no system":                      {`"os":"smartos"`, `"os":null`, ""},
		"a size that is a string":        {`"size":46271847`, `"size":"46271847"`, "files.size is a JSON string"},
		"files that are a string":        {`"files":[`, `"files":"none","was":[`, "files is a JSON string"},
		"a version that is a number":     {`"version":"1.6.3"`, `"version":1.6`, "version is a JSON number"},
	} {
		text := strings.Replace(dataset, x.from, x.to, 1)
		if text == dataset {
			t.Fatalf("%s: nothing was replaced", name)
		}
		all, damaged := parseList([]json.RawMessage{[]byte(text), []byte(layer(lower, "good", ""))}, "https://host")
		if len(all)+len(damaged) != 2 || (x.want == "") != (len(damaged) == 0) {
			t.Errorf("%s: %v, %v", name, all, damaged)
			continue
		}
		if x.want != "" && (!strings.Contains(damaged[0].Error(), x.want) || strings.Contains(damaged[0].Error(), "Go ")) {
			t.Errorf("%s: %v", name, damaged[0])
		}
	}
	two := strings.Replace(dataset, `"files":[`, `"files":[{"size":1},`, 1)
	if all, _ := parseList([]json.RawMessage{[]byte(two)}, "https://host"); len(all) != 1 ||
		all[0].Refused != "it has 2 files" {
		t.Errorf("%+v", all)
	}
}
