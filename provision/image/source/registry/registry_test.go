package registry

import (
	"testing"

	"bakeoff/provision/image/source"
	"bakeoff/provision/image/source/sourcetest"
)

func wanted(repository, tag string) source.Image {
	return source.Image{ID: repository + ":" + tag, Name: repository, Version: tag, Type: "oci",
		Reference: "$SERVER/" + repository + ":" + tag}
}

var documents = map[string]string{"/v2/": "{}", "/v2/_catalog": `{"repositories":["team/app","other"]}`,
	"/v2/team/app/tags/list": `{"name":"team/app","tags":["1","2"]}`,
	"/v2/other/tags/list":    `{"name":"other","tags":["latest"]}`}

func Test(t *testing.T) {
	sourcetest.Run(t, sourcetest.Case{Source: Source{}, Bare: true, Documents: documents,
		Want:  []source.Image{wanted("team/app", "1"), wanted("team/app", "2"), wanted("other", "latest")},
		Wrong: []string{"https://docker.io", "docker.io/UPPER", "docker.io/x:1"}})
}

func TestRepository(t *testing.T) {
	sourcetest.Run(t, sourcetest.Case{Source: Source{}, Bare: true, Path: "/team/app", Documents: documents,
		Want: []source.Image{wanted("team/app", "1"), wanted("team/app", "2")}})
}
