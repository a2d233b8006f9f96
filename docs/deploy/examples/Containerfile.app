# An application's image with the library and the command in it.
FROM registry.example.com/app:1.0
COPY --from=registry.example.com/cubfc:0.1.0 / /opt/cubfc
ENV CUBFC_MEM_LIMIT=20GiB
ENV LD_PRELOAD=/opt/cubfc/lib/libcubfc.so
