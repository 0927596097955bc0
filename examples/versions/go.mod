module words

go 1.26
