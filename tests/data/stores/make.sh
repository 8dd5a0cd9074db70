#!/bin/sh
# Makes the key and trust stores of the tests with Java's keytool, from ../tls. Needs Java and OpenSSL; run it
# in this folder. They guard nothing: every key and password here is public.
set -eu
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
rm -f ./*.jks ./*.p12
openssl pkcs12 -export -in ../tls/client.pem -inkey ../tls/client-key.pem -certfile ../tls/ca.pem \
    -name client -out "$work/client.p12" -passout pass:store-horse

copy_key() { # store, type, alias, password of the key, further arguments
    store=$1 type=$2 alias=$3 key_password=$4
    shift 4
    keytool "$@" -importkeystore -noprompt -srckeystore "$work/client.p12" -srcstoretype PKCS12 \
        -srcstorepass store-horse -srcalias client -destalias "$alias" -destkeystore "$store" \
        -deststoretype "$type" -deststorepass store-horse -destkeypass "$key_password"
}
copy_key client.jks JKS client key-battery
copy_key client.p12 PKCS12 client store-horse
copy_key client-java8.p12 PKCS12 client store-horse -J-Dkeystore.pkcs12.legacy
for type in JKS PKCS12; do
    suffix=$(echo $type | sed 's/PKCS12/p12/; s/JKS/jks/')
    copy_key "several.$suffix" $type first store-horse
    copy_key "several.$suffix" $type second store-horse
    for name in ca stranger-ca; do
        keytool -importcert -noprompt -alias $name -file ../tls/$name.pem -keystore "trust.$suffix" \
            -storetype $type -storepass store-horse
    done
done
