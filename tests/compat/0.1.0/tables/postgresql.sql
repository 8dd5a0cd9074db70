CREATE TABLE public.goods (
    id bigint NOT NULL,
    name text,
    price numeric(10,2)
);
CREATE TABLE public.penstock_batches (
    target character varying(500) NOT NULL,
    query_id character varying(100) NOT NULL,
    batch_id bigint NOT NULL,
    digest character varying(100) NOT NULL,
    format integer NOT NULL
);
INSERT INTO public.goods VALUES (3, 'c', 0.10);
INSERT INTO public.goods VALUES (1, 'é', 2.50);
INSERT INTO public.penstock_batches VALUES ('public.goods', '8c19773b-93ee-4f08-a627-63d7f625a574', 1, '2-1a73b4e5adaa0fb8-707b883abccc9507 rows', 1);
ALTER TABLE ONLY public.goods
    ADD CONSTRAINT goods_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.penstock_batches
    ADD CONSTRAINT penstock_batches_pkey PRIMARY KEY (target);
